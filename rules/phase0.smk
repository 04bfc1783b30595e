"""Phase 0: which engine features work together, each combination in a process of its own, and what to do instead."""


rule phase0_vllm_runner:
    """Run the selected cells of the composability matrix and the cache tests; goes on where it was stopped."""
    input:
        target=f"results/{RUN}/models/target",
        drafter=f"results/{RUN}/models/drafter",
        adapters=[adapter_dir(name) for name in TIER.phase0_runtime.adapters.names],
    output:
        "results/{run}/phase0/vllm_observations.json",
    log:
        "logs/{run}/phase0_vllm_runner.log",
    benchmark:
        "results/{run}/benchmarks/phase0_vllm_runner.tsv"
    threads: 2
    resources:
        mem_mb=7000,
        runtime=240,
        gpu=NUM_GPUS,
    params:
        python=SERVING_PYTHON,
        preload=preloaded(),
        code=code("phase0_vllm_runner"),
        adapters=named_dirs(TIER.phase0_runtime.adapters.names),
        settings=phase0_settings,
        engine=as_json(TIER.models.engine),
        folder=TIER.folder.relative_to(ROOT),
    message:
        "Trying which engine features work together on vLLM"
    shell:
        "LD_PRELOAD={params.preload} {params.python} scripts/phase0_vllm_runner.py --config {params.folder}/phase0_runtime.yaml --execute"
        " --target {input.target} --drafter {input.drafter} --adapters {params.adapters} --output {output} > {log} 2>&1"


rule phase0_composability:
    """Lay what was measured over the full matrix and write the fallback policy."""
    input:
        phase0_observations(),
    output:
        "results/{run}/phase0/matrix.json",
        "results/{run}/phase0/matrix.csv",
        "results/{run}/phase0/fallback_policy.json",
        phase0_table(),
    log:
        "logs/{run}/phase0_composability.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
    params:
        python=analysis_python(),
        code=code("phase0_composability"),
        settings=phase0_settings,
        folder=TIER.folder.relative_to(ROOT),
        measured=phase0_flags(),
    message:
        "Writing the composability matrix and its fallback policy"
    shell:
        "{params.python} scripts/phase0_composability.py --config {params.folder}/phase0_runtime.yaml"
        " {params.measured} --output-dir results/{wildcards.run}/phase0 > {log} 2>&1"
