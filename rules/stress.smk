"""Policies under traffic: live on a real server, simulated as a whole grid, and the one held against the other."""


localrules:
    compare_live_stress,
    simulate_stress,
    validate_simulator,


rule phase5_serving:
    """Run every scenario under every policy against vLLM servers on loopback, trial by trial, resumable."""
    input:
        target=target_dir(),
        drafter=drafter_dir(),
        prompts=f"results/{RUN}/prompts.json",
        adapters=[adapter_dir(name) for name in ADAPTERS],
        verdicts=[f"results/{RUN}/verdicts/{name}.measured.json" for name in ADAPTERS],
        measured=f"results/{RUN}/measured.json",
        cost_model=f"results/{RUN}/cost_model.json",
        policy=f"results/{RUN}/policy/policy.json",
        cleared=cleared,
    output:
        "results/{run}/stress/live.parquet",
    log:
        "logs/{run}/phase5_serving.log",
    benchmark:
        "results/{run}/benchmarks/phase5_serving.tsv"
    threads: 2
    resources:
        mem_mb=7000,
        runtime=60,
        disk_mb=500,
        gpu=NUM_GPUS,
    params:
        python=SERVING_PYTHON,
        preload=preloaded(),
        code=code("phase5_serving"),
        adapters=named_dirs(ADAPTERS),
        traffic=as_json(TIER.traffic),
        depths=chosen(TIER.gate, "candidate_depths"),
        engine=as_json(TIER.models.engine),
        config=TIER.path_of("traffic").relative_to(ROOT),
    message:
        "Serving traffic under each policy on vLLM (waits while other programs compute)"
    shell:
        "LORA_SPEC_PROGRESS_FD=3 LD_PRELOAD={params.preload:q} {params.python:q} scripts/phase5_serving.py --config {params.config:q} --execute"
        " --target {input.target:q} --drafter {input.drafter:q} --adapters {params.adapters:q} --verdicts {input.verdicts:q}"
        " --measured {input.measured:q} --cost-model {input.cost_model:q} --policy {input.policy:q}"
        " --state resources/stress/{wildcards.run} --output-dir results/{wildcards.run}/stress 3>&2 > {log:q} 2>&1"


rule compare_live_stress:
    """Compare the policies of the live run: gain over the best static depth, trial by trial."""
    input:
        f"{RECORDS}/stress/live.parquet",
    output:
        result="results/{run}/stress/live.json",
        table="results/{run}/tables/serving_stress.csv",
    log:
        "logs/{run}/compare_live_stress.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("compare_live_stress"),
        level=as_json(TIER.gate.level),
    message:
        "Comparing policies under live traffic"
    shell:
        "{params.python:q} scripts/compare_live_stress.py --live {input:q} --level {params.level:q} --tier {params.tier:q}"
        " --output {output.result:q} --figure-table {output.table:q} > {log:q} 2>&1"


rule simulate_stress:
    """Simulate every policy under every traffic pattern, cache mode and load, from measured acceptance and step costs."""
    input:
        step_cost="results/{run}/step_cost.json",
        measured="results/{run}/measured.json",
        predictions="results/{run}/predictor/predictions.json",
        policy="results/{run}/policy/policy.json",
    output:
        result="results/{run}/stress/simulated.json",
        table="results/{run}/tables/simulated_stress.csv",
    log:
        "logs/{run}/simulate_stress.log",
    benchmark:
        "results/{run}/benchmarks/simulate_stress.tsv"
    threads: 2
    resources:
        mem_mb=2000,
        runtime=30,
        disk_mb=50,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("simulate_stress"),
        settings=as_json(simulation_settings()),
    message:
        "Simulating policies under traffic of the whole pool"
    shell:
        "{params.python:q} scripts/simulate_stress.py --step-cost {input.step_cost:q} --measured {input.measured:q}"
        " --predictions {input.predictions:q} --policy {input.policy:q} --settings {params.settings:q} --tier {params.tier:q}"
        " --state resources/simulated_stress/{wildcards.run} --threads {threads}"
        " --output {output.result:q} --figure-table {output.table:q} > {log:q} 2>&1"


rule validate_simulator:
    """Simulate exactly the live schedules: throughput and TPOT within 10 %, policies in the same order."""
    input:
        live=f"{RECORDS}/stress/live.parquet",
        step_cost="results/{run}/step_cost.json",
        measured="results/{run}/measured.json",
    output:
        "results/{run}/stress/simulator_validation.json",
    log:
        "logs/{run}/validate_simulator.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("validate_simulator"),
    message:
        "Holding the simulator against the live run"
    shell:
        "{params.python:q} scripts/validate_simulator.py --live {input.live:q} --step-cost {input.step_cost:q}"
        " --measured {input.measured:q} --tier {params.tier:q} --output {output:q} > {log:q} 2>&1"


rule stress:
    """Policies under traffic, live and simulated: asked for by name, or as far as records are there."""
    input:
        f"results/{RUN}/stress/live.json",
        f"results/{RUN}/stress/simulated.json",
        f"results/{RUN}/stress/simulator_validation.json",
