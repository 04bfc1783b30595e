"""Settings, names and helpers. Rules hold only rules; nothing here knows a tier by its name."""

import json
import re
import sys
from pathlib import Path

from lora_spec.config import load_tier
from lora_spec.config.distillation import TRAJECTORIES
from lora_spec.config.adapter_families import families_of
from lora_spec.config.effect_settings import effect_settings
from lora_spec.config.seed_groups import recipe_groups, seed_noise_settings
from lora_spec.errors import ConfigError
from lora_spec.provenance import code_digest
from lora_spec.training.domains import find_domain

ROOT = Path(workflow.basedir)
if Path.cwd().resolve() != ROOT.resolve():
    raise WorkflowError(
        f"the workflow reads and writes below its own root; run it there: cd {ROOT}"
    )
CONFIG_KEYS = ("tier", "measurements", "pool")
if unknown := sorted(set(config) - set(CONFIG_KEYS)):
    raise WorkflowError(
        f"--config {unknown[0]}: no such key; there are {', '.join(CONFIG_KEYS)}"
    )
try:
    TIER = load_tier(ROOT, config.get("tier", "mini"))
except ConfigError as error:
    raise WorkflowError(str(error)) from None

MEASUREMENTS = config.get("measurements", TIER.models.default_measurements)
if MEASUREMENTS not in ("fresh", "shipped"):
    raise WorkflowError(
        f"--config measurements={MEASUREMENTS}: choose fresh or shipped"
    )

POOL = str(config.get("pool", "all"))


def pool_names():
    """Return the adapters that --config pool names: all, the pilot, or some by name with commas between them."""
    pool = TIER.adapter_pool
    if POOL == "all":
        return pool.names
    if POOL == "pilot" and pool.pilot:
        return pool.pilot
    wanted = POOL.split(",")
    if unknown := sorted(set(wanted) - set(pool.names)):
        raise WorkflowError(
            f"--config pool={POOL}: choose all, pilot where adapter_pool.yaml names one, or names of its adapters with "
            f"commas between them; there is no adapter {unknown[0]!r}"
        )
    return tuple(name for name in pool.names if name in wanted)


RUN = f"{TIER.name}-shipped" if MEASUREMENTS == "shipped" else TIER.name
RECORDS = f"reference/{TIER.name}" if MEASUREMENTS == "shipped" else f"results/{RUN}"
PROBED_MODE = "checkpoint_calib"
FIGURES = {
    "fig1_composability": "composability",
    "fig2_paired_effect": "paired_effect",
    "fig3_predicted_vs_measured": "predicted_vs_measured",
    "fig4_predictor_scores": "predictor_scores",
    "fig4b_probe_curve": "probe_curve",
    "fig5_rank_disagreement": "rank_disagreement",
    "fig5b_gate_regret": "gate_regret",
    "fig6_decision_map": "decision_map",
    "fig7_cost_model_fit": "cost_model_fit",
    "fig8_risk_coverage": "risk_coverage",
    "fig10_serving_stress": "serving_stress",
    "fig10b_simulated_stress": "simulated_stress",
}
SERVING_PYTHON = ".venv-serving/bin/python"
# What counting reads of phase1_measurement.yaml, and what estimating reads: a change elsewhere reruns neither.
COUNTING = (
    "num_speculative_tokens",
    "max_depth",
    "arms",
    "min_drafts",
    "num_warmup_prompts",
    "counting",
)
ESTIMATING = (
    "num_speculative_tokens",
    "min_drafts",
    "level",
    "num_bootstrap_draws",
    "seed",
)


def adapters_with_records():
    """Return the tier's adapters, all or the chosen ones; in a shipped run those of them whose records are shipped."""
    names = pool_names()
    if MEASUREMENTS == "fresh":
        return names
    folder = ROOT / RECORDS / "acceptance"
    return tuple(name for name in names if (folder / f"{name}.parquet").exists())


ADAPTERS = adapters_with_records()
# The pilot is measured first; the rest of the pool is screened after it. Without a pilot all are the pilot.
PILOT = tuple(name for name in ADAPTERS if name in TIER.adapter_pool.pilot) or ADAPTERS
SCREENED = tuple(name for name in ADAPTERS if name not in PILOT)
NUM_GPUS = 0 if TIER.models.engine.device == "cpu" else 1
# Copies and noise are computed from their parents in seconds; only what is trained needs the engine's device.
DERIVED = tuple(
    row.name for row in TIER.adapter_pool.adapters if hasattr(row, "parent")
)
TRAINED = tuple(name for name in TIER.adapter_pool.names if name not in DERIVED)


def analysis_python():
    """Return this interpreter, as a path below the checkout where it lies there: params must not name machines."""
    here = Path(sys.executable)
    return str(here.relative_to(ROOT)) if here.is_relative_to(ROOT) else str(here)


def preloaded():
    """Return the OpenMP runtime that vLLM asks for on a CPU; on a GPU nothing is preloaded."""
    return ".venv-serving/lib/libiomp5.so" if TIER.models.engine.device == "cpu" else ""


def plain(block):
    """Return a config block as plain data."""
    return block.to_dict() if hasattr(block, "to_dict") else block


def as_json(block):
    """Return settings as one JSON text, the same for the same settings, for a script's flag."""
    return json.dumps(plain(block), sort_keys=True)


def chosen(block, *keys):
    """Return some keys of a config block as JSON, so that a rule depends on just what it reads."""
    return as_json({key: plain(block)[key] for key in keys})


def counting(is_live=False):
    """Return what counting reads of phase1_measurement.yaml, as JSON: how many prompts run live only where they do."""
    phase1 = plain(TIER.phase1_measurement)
    block = {
        key: value
        for key, value in phase1["counting"].items()
        if is_live or key != "num_live_prompts"
    }
    return as_json({**{key: phase1[key] for key in COUNTING}, "counting": block})


def code(script):
    """Return a digest of a script and of the library modules behind it."""
    return code_digest(ROOT / "scripts" / f"{script}.py")


def flag(name, paths):
    """Return a flag with its paths as words for the shell, or none where there is no path."""
    return [name, *([paths] if isinstance(paths, str) else paths)] if paths else []


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


def served_flags():
    """Return the flags that say what engines under a policy serve: models of this run, slots and rank of the config."""
    # A run on shipped records makes no models: engines are started on those of a fresh run.
    engine, run = TIER.models.engine, TIER.name
    words = ["--target", target_dir(run), "--drafter", drafter_dir(run)]
    slots = ["--max-loras", engine.max_loras, "--max-lora-rank", engine.max_lora_rank]
    return [*words, *map(str, slots)]


def timed_adapters():
    """Return the adapters served while steps are timed: all of the rank that the config times at."""
    rank = TIER.phase1_measurement.step_time.lora_rank
    origins = {name: TIER.adapter_pool.find_origin(name) for name in ADAPTERS}
    fitting = [
        name for name, row in origins.items() if getattr(row, "rank", rank) == rank
    ]
    return fitting[: TIER.models.engine.max_loras]


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


def live_adapters():
    """Return the adapters that live counters confirm: every so many, in the order of the pool, so of every stratum."""
    if TIER.phase1_measurement.counting.weights == "lora":
        return ()
    wanted = TIER.phase1_measurement.num_live_adapters or len(ADAPTERS)
    step = max(1, len(ADAPTERS) // wanted)
    return tuple(ADAPTERS[::step][:wanted])


def calibrated_adapters():
    """Return the adapters that are probed on calibration prompts: all where the tier has such prompts, else none."""
    return ADAPTERS if TIER.prompts.find("own", "calibration") else ()


def calibration_records():
    """Return the calibration records of all adapters that are probed: measured by this run, or as many as are shipped."""
    paths = [f"{RECORDS}/calibration/{name}.parquet" for name in calibrated_adapters()]
    if MEASUREMENTS == "fresh":
        return paths
    return [path for path in paths if (ROOT / path).exists()]


def records(kind, ext="json"):
    """Return the records of one kind for all adapters, measured by this run or shipped."""
    return [f"{RECORDS}/{kind}/{name}.{ext}" for name in ADAPTERS]


def domains():
    """Return adapter name to domain: the group that a split leaves out whole."""
    return {name: TIER.adapter_pool.find(name).domain for name in ADAPTERS}


def pair_names():
    """Return what numbers hold for: target and drafter by name, and the engine's version."""
    pair, engine = TIER.models.primary, TIER.models.engine
    return {
        "target_model": pair.target.name,
        "draft_model": pair.drafter.name,
        "engine": f"vLLM {engine.vllm_version} on {engine.device}, {engine.dtype}",
    }


def expected_engine(pair=TIER.models.primary):
    """Return the engine and the pair that numbers must come from, so that captions say nothing else."""
    engine = TIER.models.engine
    return {
        "vllm": engine.vllm_version,
        "dtype": engine.dtype,
        "target": pair.target.name,
        "drafter": pair.drafter.name,
    }


def expected_measurement(pair=TIER.models.primary):
    """Return what acceptance records must have been measured with, so that captions say nothing else."""
    phase1 = TIER.phase1_measurement
    evaluation = [TIER.prompts.own_evaluation, TIER.prompts.common_evaluation]
    keys = ("prompt_set", "num_prompts", "max_tokens", "sha256")
    return {
        "engine": expected_engine(pair),
        "max_depth": phase1.max_depth,
        "weights": phase1.counting.weights,
        "domains": domains(),
        "prompts": [{key: plain(entry)[key] for key in keys} for entry in evaluation],
    }


def screen_tables():
    """Return the table of the screening, where this run measures more than a pilot."""
    is_screened = MEASUREMENTS == "fresh" and SCREENED
    return [f"results/{RUN}/screen.json"] if is_screened else []


def noise_reports():
    """Return the report on the noise of training, where the pool repeats a recipe with other seeds."""
    has_repeats = any(len(group) > 1 for group in recipe_groups(TIER.adapter_pool))
    return [f"results/{RUN}/seed_noise.json"] if ADAPTERS and has_repeats else []


def transfer_reports():
    """Return the report on the second pair where there is one, of the whole pool: measured by this run, or shipped."""
    is_there = MEASUREMENTS == "fresh" or (ROOT / RECORDS / "confirm").is_dir()
    is_reported = TIER.models.confirm is not None and POOL == "all" and is_there
    return [f"results/{RUN}/confirm/transfer.json"] if is_reported else []


def step_cost():
    """Return the fitted parts of a step where they were timed: shipped, or by a run that was asked to."""
    is_there = (ROOT / RECORDS / "cost_parts.json").exists()
    return ["results/{run}/step_cost.json"] if ADAPTERS and is_there else []


def step_cost_reports():
    """Return the validation of the parts of a step where they are shipped; a fresh run times them when asked to."""
    is_there = (
        MEASUREMENTS == "shipped" and (ROOT / RECORDS / "cost_parts.json").exists()
    )
    return [f"results/{RUN}/step_cost_validation.json"] if ADAPTERS and is_there else []


def has_live_stress():
    """Return whether policies are compared under live traffic: by this run of the whole pool, or by a shipped record."""
    if MEASUREMENTS == "shipped":
        return bool(ADAPTERS) and (ROOT / RECORDS / "stress/live.parquet").exists()
    return POOL == "all"


def stress_reports():
    """Return what is told of policies under traffic beside figures: the simulator held against the live run."""
    is_validated = has_live_stress() and step_cost_reports()
    return [f"results/{RUN}/stress/simulator_validation.json"] if is_validated else []


def simulation_settings():
    """Return what the simulated grid needs beside results."""
    origins = {name: TIER.adapter_pool.find_origin(name) for name in ADAPTERS}
    most = TIER.models.engine.max_lora_rank
    names = pair_names()
    return {
        "traffic": plain(TIER.traffic),
        "baselines": plain(TIER.baselines),
        "engine": plain(TIER.models.engine),
        "ranks": {name: getattr(row, "rank", most) for name, row in origins.items()},
        "level": TIER.gate.level,
        "setup": (
            f"{names['target_model']} + {names['draft_model']}, {names['engine']}: simulated from measured acceptance of "
            f"{len(ADAPTERS)} adapters and measured step costs, {TIER.traffic.output_tokens} output tokens, greedy, "
            f"standing K={TIER.gate.standing_num_speculative_tokens}"
        ),
    }


def setup_in_words():
    """Return the line under every figure."""
    names = pair_names()
    own, common = TIER.prompts.own_evaluation, TIER.prompts.common_evaluation
    counted = {
        "lora": "counts by replay of texts served with LoRA, times with LoRA on",
        "merged": "counts by replay of merged weights, times with LoRA on",
    }
    return (
        f"{names['target_model']} + {names['draft_model']}, {names['engine']}, {counted[TIER.phase1_measurement.counting.weights]}, greedy, "
        f"standing K={TIER.gate.standing_num_speculative_tokens}, {own.num_prompts_per_adapter} own and {common.num_prompts_per_adapter} common prompts, "
        f"at most {own.max_tokens} tokens each"
    )


def joined_tables():
    """Return the tables that verdicts, estimates and step times are joined into; other figures have sources of their own."""
    apart = ("composability", "predictor_scores", "probe_curve", "gate_regret")
    apart += ("serving_stress", "simulated_stress")
    return [name for name in FIGURES.values() if name not in apart]


def scored_adapters():
    """Return the adapters that count where predictors are scored: no copies, no controls, no repeats."""
    return [name for name in TIER.adapter_pool.separate if name in ADAPTERS]


def scored_domains():
    """Return the domain of every adapter that counts."""
    return {name: TIER.adapter_pool.find(name).domain for name in scored_adapters()}


def comparison_settings():
    """Return what comparing predictors needs beside features, counts and step times."""
    return {
        "gate": plain(TIER.gate),
        "domains": domains(),
        "context": pair_names(),
        "scored": scored_adapters(),
        "setup": setup_in_words(),
    }


def gate_regret_settings():
    """Return what holding policies against the oracle needs beside acceptance, verdicts and step times."""
    return {
        "gate": plain(TIER.gate),
        "baselines": plain(TIER.baselines),
        "traffic": json.loads(chosen(TIER.traffic, "patterns", "output_tokens")),
        "context": pair_names(),
        "scored": scored_adapters(),
        "setup": setup_in_words(),
    }


def unseen_families_settings():
    """Return what leaving whole families out needs beside features, counts, predictions and step times."""
    return {
        "gate": plain(TIER.gate),
        "domains": domains(),
        "context": pair_names(),
        "scored": scored_adapters(),
        "families": families_of(TIER.adapter_pool, ADAPTERS),
    }


def unseen_families_results():
    """Return the evaluation of unseen families where it is made by itself: by a fresh run, or if it is shipped.

    It takes minutes of fitting, which who only redraws figures did not ask for; the rule's name does.
    """
    is_made = MEASUREMENTS == "fresh" or kept_fits("unseen_families")
    is_made = is_made and can_compare_predictors()
    return [f"results/{RUN}/predictor/unseen_families.json"] if is_made else []


def can_compare_predictors():
    """Return whether the scored adapters come from enough domains to compare predictors on."""
    num_domains = len({domains()[name] for name in scored_adapters()})
    return num_domains >= TIER.gate.comparison.min_sources


def has_probe_curve():
    """Return whether predictors are compared on adapters that are all probed: then a second one sees the probes too."""
    probed = calibration_records()
    return (
        can_compare_predictors()
        and bool(probed)
        and len(probed) == len(calibrated_adapters())
    )


def predictions_by_mode():
    """Return the held-out predictions that verdicts are made of: in the gate's mode, and with probes."""
    names = ["predictions", *(["probed/predictions"] if has_probe_curve() else [])]
    return [f"results/{{run}}/predictor/{name}.json" for name in names]


def certifications_by_mode():
    """Return the certificates of these, in the same order."""
    probed = ["predictor/probed/certification"] if has_probe_curve() else []
    return [f"results/{{run}}/{name}.json" for name in ("certification", *probed)]


def predictor_settings():
    """Return what fitting a predictor needs beside features and records."""
    return {"gate": plain(TIER.gate), "domains": domains(), "context": pair_names()}


def probe_curve_table():
    """Return the table of figure 4b, where adapters are probed."""
    return ["results/{run}/tables/probe_curve.csv"] if has_probe_curve() else []


def phase0_settings(wildcards):
    """Return the phase-0 settings as JSON; a function, since the braces of a pattern are no wildcards."""
    return as_json(TIER.phase0_runtime)


def phase0_observations():
    """Return the measured cells: of this run, or shipped; none where a tier ships none."""
    path = f"{RECORDS}/phase0/vllm_observations.json"
    return [path] if MEASUREMENTS == "fresh" or Path(path).exists() else []


def phase0_table():
    """Return the table of figure 1, where there are measured cells to show."""
    return ["results/{run}/tables/composability.csv"] if phase0_observations() else []


def phase0_flags():
    """Return the flags that name measured cells and the table of them; without both the matrix is contract-only."""
    table = f"results/{RUN}/tables/composability.csv"
    return [
        word
        for path in phase0_observations()
        for word in ("--observations-json", path, "--figure-table", table)
    ]


def kept_fits(*names):
    """Return results of fits that are shipped beside the records; a fresh run makes its own."""
    paths = [f"{RECORDS}/predictor/{name}.json" for name in names]
    is_kept = MEASUREMENTS == "shipped" and all(
        (ROOT / path).exists() for path in paths
    )
    return paths if is_kept else []


def either(words):
    """Return a wildcard's constraint: one of these words and nothing else."""
    return "|".join(map(re.escape, words))


def drawn_figures():
    """Return the figures that there is something to draw for."""
    shown = {name: bool(ADAPTERS) for name in FIGURES}
    shown["fig1_composability"] = bool(phase0_observations())
    shown["fig4_predictor_scores"] = can_compare_predictors()
    shown["fig4b_probe_curve"] = has_probe_curve()
    shown["fig5b_gate_regret"] = can_compare_predictors()
    shown["fig10_serving_stress"] = has_live_stress()
    shown["fig10b_simulated_stress"] = bool(step_cost_reports())
    return tuple(name for name, is_shown in shown.items() if is_shown)


def figure_name(wildcards):
    """Return the name by which the library knows a figure."""
    return FIGURES[wildcards.figure]


def table_of_figure(wildcards):
    """Return the table that a figure is drawn from."""
    return f"results/{wildcards.run}/tables/{FIGURES[wildcards.figure]}.csv"


def live_records():
    """Return the records of the live confirmation: measured by this run, or as many as are shipped."""
    names = live_adapters() if MEASUREMENTS == "fresh" else ADAPTERS
    paths = [f"{RECORDS}/acceptance_live/{name}.parquet" for name in names]
    if MEASUREMENTS == "fresh":
        return paths
    return [path for path in paths if (ROOT / path).exists()]


def study_settings():
    """Return what the tables need beside the results."""
    return {
        "tier": TIER.name,
        "setup": setup_in_words(),
        "pool": {name: plain(TIER.adapter_pool.find(name)) for name in ADAPTERS},
        "gate": plain(TIER.gate),
    }


MODES = (
    "measured",
    TIER.gate.predictor.mode,
    *([PROBED_MODE] if has_probe_curve() else []),
)
