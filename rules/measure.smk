"""Measurements on a real engine: acceptance (counts) and step times (clock). Never side by side."""


rule phase1_collect:
    """Measure the pilot (all adapters where there is none): base and adapted target on the same prompts, resumable."""
    input:
        target=target_dir(),
        drafter=drafter_dir(),
        early=early_drafter(),
        prompts=f"results/{RUN}/prompts.json",
        adapters=[adapter_dir(name) for name in PILOT],
        cleared=cleared,
    output:
        expand(
            "results/{run}/acceptance/{adapter}.parquet",
            adapter=PILOT,
            allow_missing=True,
        ),
    log:
        "logs/{run}/phase1_collect.log",
    benchmark:
        "results/{run}/benchmarks/phase1_collect.tsv"
    threads: 2
    resources:
        mem_mb=7000,
        runtime=120,
        disk_mb=200,
        gpu=NUM_GPUS,
    params:
        python=SERVING_PYTHON,
        preload=preloaded(),
        code=code("phase1_collect"),
        names=PILOT,
        adapters=named_dirs(PILOT),
        early=lambda wildcards, input: flag("--early-drafter", input.early),
        counting=counting(),
        engine=as_json(TIER.models.engine),
        config=TIER.path_of("phase1_measurement").relative_to(ROOT),
    message:
        "Measuring the acceptance of {params.names} on vLLM"
    shell:
        "LORA_SPEC_PROGRESS_FD=3 LD_PRELOAD={params.preload:q} {params.python:q} scripts/phase1_collect.py --config {params.config:q} --execute"
        " --names {params.names:q} --target {input.target:q} --drafter {input.drafter:q} {params.early:q} --adapters {params.adapters:q}"
        " --state resources/records/{wildcards.run} --output-dir results/{wildcards.run}/acceptance 3>&2 > {log:q} 2>&1"


rule phase2_screen:
    """Measure the rest of the pool after the pilot, resumable, and write the table of all."""
    input:
        target=target_dir(),
        drafter=drafter_dir(),
        early=early_drafter(),
        prompts=f"results/{RUN}/prompts.json",
        adapters=[adapter_dir(name) for name in SCREENED],
        measured=[f"results/{RUN}/acceptance/{name}.parquet" for name in PILOT],
        cleared=cleared,
    output:
        expand(
            "results/{run}/acceptance/{adapter}.parquet",
            adapter=SCREENED,
            allow_missing=True,
        ),
        table="results/{run}/screen.json",
    log:
        "logs/{run}/phase2_screen.log",
    benchmark:
        "results/{run}/benchmarks/phase2_screen.tsv"
    threads: 2
    resources:
        mem_mb=7000,
        runtime=240,
        disk_mb=800,
        gpu=NUM_GPUS,
    params:
        python=SERVING_PYTHON,
        preload=preloaded(),
        code=code("phase2_screen"),
        names=SCREENED,
        adapters=flag("--adapters", named_dirs(SCREENED)),
        early=lambda wildcards, input: flag("--early-drafter", input.early),
        counting=counting(),
        estimating=chosen(TIER.phase1_measurement, *ESTIMATING),
        engine=as_json(TIER.models.engine),
        config=TIER.path_of("phase1_measurement").relative_to(ROOT),
    message:
        "Screening {params.names} on vLLM"
    shell:
        "LORA_SPEC_PROGRESS_FD=3 LD_PRELOAD={params.preload:q} {params.python:q} scripts/phase2_screen.py --config {params.config:q} --execute"
        " --names {params.names:q} --target {input.target:q} --drafter {input.drafter:q} {params.early:q} {params.adapters:q}"
        " --measured {input.measured:q} --table {output.table:q}"
        " --state resources/records/{wildcards.run} --output-dir results/{wildcards.run}/acceptance 3>&2 > {log:q} 2>&1"


rule records:
    """The records of the chosen adapters: counts, features, and the calibration probe where the tier has one."""
    input:
        records("acceptance", "parquet"),
        records("features"),
        calibration_records(),


rule confirm_live:
    """Confirm a subset by live counters with LoRA on, where acceptance was counted on merged weights."""
    input:
        target=target_dir(),
        drafter=drafter_dir(),
        prompts=f"results/{RUN}/prompts.json",
        adapters=[adapter_dir(name) for name in live_adapters()],
        cleared=cleared,
    output:
        expand(
            "results/{run}/acceptance_live/{adapter}.parquet",
            adapter=live_adapters(),
            allow_missing=True,
        ),
    log:
        "logs/{run}/confirm_live.log",
    benchmark:
        "results/{run}/benchmarks/confirm_live.tsv"
    threads: 2
    resources:
        mem_mb=7000,
        runtime=120,
        disk_mb=50,
        gpu=NUM_GPUS,
    params:
        python=SERVING_PYTHON,
        preload=preloaded(),
        code=code("phase1_collect"),
        names=live_adapters(),
        adapters=named_dirs(live_adapters()),
        counting=counting(is_live=True),
        engine=as_json(TIER.models.engine),
        config=TIER.path_of("phase1_measurement").relative_to(ROOT),
    message:
        "Confirming {params.names} by live counters"
    shell:
        "LORA_SPEC_PROGRESS_FD=3 LD_PRELOAD={params.preload:q} {params.python:q} scripts/phase1_collect.py --config {params.config:q} --execute --live"
        " --names {params.names:q} --target {input.target:q} --drafter {input.drafter:q} --adapters {params.adapters:q}"
        " --state resources/live_records/{wildcards.run} --output-dir results/{wildcards.run}/acceptance_live 3>&2 > {log:q} 2>&1"


rule profile_cost:
    """Time engine steps T_K(B) with LoRA on, interleaved, alone on the machine."""
    input:
        target=target_dir(),
        drafter=drafter_dir(),
        adapters=[adapter_dir(name) for name in timed_adapters()],
        cleared=cleared,
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
        disk_mb=5,
        gpu=NUM_GPUS,
    params:
        tier=TIER.name,
        python=SERVING_PYTHON,
        preload=preloaded(),
        code=code("profile_cost"),
        adapters=named_dirs(timed_adapters()),
        settings=as_json(TIER.phase1_measurement.step_time),
        engine=as_json(TIER.models.engine),
        pair=as_json(pair_names()),
    message:
        "Timing engine steps for every depth and batch size (waits while other programs compute)"
    shell:
        "LORA_SPEC_PROGRESS_FD=3 LD_PRELOAD={params.preload:q} {params.python:q} scripts/profile_cost.py --target {input.target:q} --drafter {input.drafter:q}"
        " --adapters {params.adapters:q} --settings {params.settings:q} --engine {params.engine:q} --pair {params.pair:q}"
        " --tier {params.tier:q} --output {output:q} 3>&2 > {log:q} 2>&1"


rule profile_cost_parts:
    """Time what a step is made of: contexts, prompts, mixed depths, adapter loads, engines without drafter or LoRA."""
    input:
        target=target_dir(),
        drafter=drafter_dir(),
        adapters=[adapter_dir(name) for name in timed_adapters()],
        cleared=cleared,
    output:
        "results/{run}/cost_parts.json",
    log:
        "logs/{run}/profile_cost_parts.log",
    benchmark:
        "results/{run}/benchmarks/profile_cost_parts.tsv"
    threads: 2
    resources:
        mem_mb=9000,
        runtime=60,
        disk_mb=5,
        gpu=NUM_GPUS,
    params:
        tier=TIER.name,
        python=SERVING_PYTHON,
        preload=preloaded(),
        code=code("profile_cost_parts"),
        adapters=named_dirs(timed_adapters()),
        settings=as_json(TIER.phase1_measurement.cost_parts),
        engine=as_json(TIER.models.engine),
        pair=as_json(pair_names()),
    message:
        "Timing what a step is made of, ten minutes at most on a quiet machine (waits while other programs compute)"
    shell:
        "LORA_SPEC_PROGRESS_FD=3 LD_PRELOAD={params.preload:q} {params.python:q} scripts/profile_cost_parts.py --target {input.target:q}"
        " --drafter {input.drafter:q} --adapters {params.adapters:q} --settings {params.settings:q} --engine {params.engine:q}"
        " --pair {params.pair:q} --tier {params.tier:q} --output {output:q} 3>&2 > {log:q} 2>&1"
