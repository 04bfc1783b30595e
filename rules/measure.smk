"""Measurements on a real engine: acceptance (counts) and step times (clock). Never side by side."""


rule phase1_collect:
    """Measure acceptance of base and adapted target on the same prompts, adapter by adapter."""
    input:
        target=f"results/{RUN}/models/target",
        drafter=f"results/{RUN}/models/drafter",
        prompts=f"results/{RUN}/prompts.json",
        adapters=all_adapter_dirs,
    output:
        expand("results/{run}/acceptance/{adapter}.json", adapter=ADAPTERS, allow_missing=True),
    log:
        "logs/{run}/phase1_collect.log",
    benchmark:
        "results/{run}/benchmarks/phase1_collect.tsv"
    threads: 2
    resources:
        mem_mb=7000,
        runtime=120,
        gpu=gpus_of_engine(),
    params:
        code=code("phase1_collect"),
        names=" ".join(ADAPTERS),
        config=settings_of("phase1_measurement", *PHASE1_COLLECT_KEYS),
        engine=settings("models", "engine"),
    message:
        "Measuring acceptance of {ADAPTERS} on the engine"
    shell:
        "{SERVING_PYTHON} scripts/phase1_collect.py --config {TIER.folder}/phase1_measurement.yaml --execute"
        " --target {input.target} --drafter {input.drafter} --prompts {input.prompts} --adapters {input.adapters}"
        " --output-dir results/{wildcards.run}/acceptance > {log} 2>&1"


rule profile_cost:
    """Time engine steps T_K(B) with LoRA on, interleaved, alone on the machine."""
    input:
        target=f"results/{RUN}/models/target",
        drafter=f"results/{RUN}/models/drafter",
        adapter=lambda wildcards: adapter_dir(timed_adapter()),
    output:
        "results/{run}/step_times.json",
    log:
        "logs/{run}/profile_cost.log",
    benchmark:
        "results/{run}/benchmarks/profile_cost.tsv"
    threads: 2
    resources:
        mem_mb=7000,
        runtime=60,
        gpu=gpus_of_engine(),
    params:
        code=code("profile_cost"),
        settings=settings("phase1_measurement", "step_time"),
        engine=settings("models", "engine"),
    message:
        "Timing engine steps for every depth and batch size"
    shell:
        "{SERVING_PYTHON} scripts/profile_cost.py --target {input.target} --drafter {input.drafter}"
        " --adapter {input.adapter} --settings {params.settings:q} --engine {params.engine:q} --tier {TIER_NAME}"
        " --output {output} > {log} 2>&1"
