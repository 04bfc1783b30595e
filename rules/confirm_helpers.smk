"""Names and helpers of the second pair; there where a tier has one."""

CONFIRM = TIER.models.confirm
CONFIRM_RECORDS = f"{RECORDS}/confirm"


def confirm_target():
    """Return the second target's folder: shipped, trained by this run, or put where the hub's models belong."""
    target = CONFIRM.target
    if target.source.kind == "hub":
        return hub_dir(target.source)
    is_shipped = target.source.sha256 is not None and not target.retrain
    return target.source.path if is_shipped else f"results/{RUN}/confirm/models/target"


def confirm_plan(wildcards):
    """Return the plan that says which adapters are confirmed: made by this run, or shipped with their records."""
    if MEASUREMENTS == "shipped":
        return f"{CONFIRM_RECORDS}/plan.json"
    return checkpoints.phase2_confirm_plan.get(run=RUN).output[0]


def confirmed(wildcards):
    """Return the adapters that the plan names; Snakemake asks again once there is a plan."""
    plan = json.loads(Path(confirm_plan(wildcards)).read_text())
    return [item["adapter"] for item in plan["payload"]["chosen"]]


def confirmed_dirs(wildcards):
    """Return the folders of the adapters made again for the second target."""
    return [f"results/{RUN}/confirm/adapters/{name}" for name in confirmed(wildcards)]


def confirmed_pairs(wildcards):
    """Return NAME=FOLDER for them."""
    return [f"{Path(folder).name}={folder}" for folder in confirmed_dirs(wildcards)]


def confirm_row_of(wildcards):
    """Return the row by which an adapter is trained for the second target, as JSON."""
    return as_json(TIER.adapter_pool.find(wildcards.adapter).made_again())


def confirm_answers_of(wildcards):
    """Return the second target's own answers where an adapter is trained on them."""
    needed = needs_own_answers(wildcards.adapter)
    return trajectories(CONFIRM, "confirm/") if needed else []


def confirm_drafter():
    """Return the second drafter's folder."""
    return drafter_dir(pair=CONFIRM, folder="confirm/")
