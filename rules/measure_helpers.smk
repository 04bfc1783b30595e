"""Helpers of rules that count, time and serve, and which of their records a run has."""

from lora_spec.config.seed_groups import recipe_groups

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


def counting(is_live=False):
    """Return what counting reads of phase1_measurement.yaml, as JSON: how many prompts run live only where they do."""
    phase1 = plain(TIER.phase1_measurement)
    block = {
        key: value
        for key, value in phase1["counting"].items()
        if is_live or key != "num_live_prompts"
    }
    return as_json({**{key: phase1[key] for key in COUNTING}, "counting": block})


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


def live_records():
    """Return the records of the live confirmation: measured by this run, or as many as are shipped."""
    names = live_adapters() if MEASUREMENTS == "fresh" else ADAPTERS
    paths = [f"{RECORDS}/acceptance_live/{name}.parquet" for name in names]
    if MEASUREMENTS == "fresh":
        return paths
    return [path for path in paths if (ROOT / path).exists()]
