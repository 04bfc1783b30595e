"""Helpers of rules that make adapters, and of the drafter's training text that some are trained on."""

from lora_spec.config.distillation import TRAJECTORIES
from lora_spec.training.domains import find_domain

# Copies and noise are computed from their parents in seconds; only what is trained needs the engine's device.
DERIVED = tuple(
    row.name for row in TIER.adapter_pool.adapters if hasattr(row, "parent")
)
TRAINED = tuple(name for name in TIER.adapter_pool.names if name not in DERIVED)


def sha256_of(wildcards):
    """Return the flag with the SHA-256 that the pool's row gives for the adapter of a job, if it gives one."""
    return flag(
        "--sha256", getattr(TIER.adapter_pool.find(wildcards.adapter), "sha256", None)
    )


def row_of(wildcards):
    """Return the pool's row of the adapter of a job, as JSON."""
    return as_json(TIER.adapter_pool.find(wildcards.adapter))


def adapter_dir(name):
    """Return the folder of an adapter: shipped in the repository, from the hub, or made by this run."""
    row = TIER.adapter_pool.find(name)
    if row.source == "hub":
        return hub_dir(row)
    return row.path if row.source == "shipped" else f"results/{RUN}/adapters/{name}"


def adapter_dir_of(wildcards):
    """Return the folder of the adapter of a job."""
    return adapter_dir(wildcards.adapter)


def trajectory_settings(pair):
    """Return which prompts a target answers and how, as JSON; null where nothing asks for its answers."""
    recipe = pair.trajectories
    return as_json(None) if recipe is None else chosen(recipe, *TRAJECTORIES)


def trajectories(pair=TIER.models.primary, folder=""):
    """Return the folder of a target's own trajectories: shipped, or written by this run."""
    recipe = pair.drafter.training
    return recipe and recipe.trajectories or f"results/{RUN}/{folder}trajectories"


def parent_of(wildcards):
    """Return the folder of the adapter that a scaled or random one is derived from."""
    parent = getattr(TIER.adapter_pool.find(wildcards.adapter), "parent", None)
    return adapter_dir(parent) if parent else []


def needs_own_answers(name):
    """Say whether an adapter is trained to rewrite the target's own answers."""
    return find_domain(TIER.adapter_pool.find(name).domain).needs_own_answers


def own_answers_of(wildcards):
    """Return the target's trajectories where an adapter is trained on them."""
    return trajectories() if needs_own_answers(wildcards.adapter) else []


def named_dirs(names):
    """Return NAME=FOLDER for some adapters."""
    return [f"{name}={adapter_dir(name)}" for name in names]


def layers_of(drafter, trained, folder=""):
    """Return a drafter's layers: shipped, or trained by this run where the config says so."""
    is_made = drafter.retrain or getattr(drafter.source, "sha256", None) is None
    return (
        f"results/{RUN}/{folder}models/{trained}.safetensors"
        if is_made
        else drafter.source.path
    )


def early_drafter():
    """Return the folder of the drafter's early checkpoint where the tier replays it."""
    is_used = "early" in TIER.phase1_measurement.counting.drafters
    return [f"results/{RUN}/models/early_drafter"] if is_used else []


def base_profile():
    """Return the base profile where the tier records one: made by this run, or shipped."""
    is_used = TIER.models.base_profile is not None
    return [f"{RECORDS}/base_profile.safetensors"] if is_used else []


def overlap_settings():
    """Return what the drafter's training text is, and the seed of the pairs held against it."""
    recipe, own = TIER.models.primary.drafter.training, TIER.prompts.own_evaluation
    text = recipe and json.loads(chosen(recipe, *TRAJECTORIES))
    return as_json({"training": text, "pair_seed": own.seed})


def domain_overlap():
    """Return the record of each domain's overlap with the drafter's training text: counted by this run, or shipped.

    None where the drafter has no recipe here, so that nobody knows its training text, or the pool is no study of domains.
    """
    path = f"{RECORDS}/domain_overlap.json"
    is_known = TIER.models.primary.drafter.training is not None
    is_there = MEASUREMENTS == "fresh" or (ROOT / path).exists()
    return [path] if is_known and TIER.adapter_pool.pilot and is_there else []


def trained_adapters():
    """Return the adapters that have a record of their training: those trained by this run, or shipped."""
    sources = ("trained", "shipped") if MEASUREMENTS == "fresh" else ("shipped",)
    rows = [TIER.adapter_pool.find(name) for name in ADAPTERS]
    return [row.name for row in rows if row.source in sources and row.num_steps]


def trained_dirs():
    """Return the folders of the adapters that have a record of their training."""
    return [adapter_dir(name) for name in trained_adapters()]


def adapter_table_settings():
    """Return what the table of adapters needs beside results."""
    pool = [plain(TIER.adapter_pool.find(name)) for name in ADAPTERS]
    return {"tier": TIER.name, "setup": setup_in_words(), "pool": pool}
