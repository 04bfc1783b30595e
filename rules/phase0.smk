"""Phase 0: which engine features work together, each combination in a process of its own, and what to do instead."""


localrules:
    phase0_composability,


rule phase0_vllm_runner:
    """Run the selected cells of the composability matrix and the cache tests; goes on where it was stopped."""
    input:
        target=target_dir(),
        drafter=drafter_dir(),
        adapters=[adapter_dir(name) for name in TIER.phase0_runtime.adapters.names],
        cleared=cleared,
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
        disk_mb=50,
        gpu=NUM_GPUS,
    params:
        python=SERVING_PYTHON,
        preload=preloaded(),
        code=code("phase0_vllm_runner"),
        adapters=named_dirs(TIER.phase0_runtime.adapters.names),
        settings=phase0_settings,
        engine=as_json(TIER.models.engine),
        config=TIER.path_of("phase0_runtime").relative_to(ROOT),
    message:
        "Trying which engine features work together on vLLM"
    shell:
        "LORA_SPEC_PROGRESS_FD=3 LD_PRELOAD={params.preload:q} {params.python:q} scripts/phase0_vllm_runner.py --config {params.config:q} --execute"
        " --target {input.target:q} --drafter {input.drafter:q} --adapters {params.adapters:q} --output {output:q} 3>&2 > {log:q} 2>&1"


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
        disk_mb=5,
    params:
        python=analysis_python(),
        code=code("phase0_composability"),
        settings=phase0_settings,
        config=TIER.path_of("phase0_runtime").relative_to(ROOT),
        measured=phase0_flags(),
    message:
        "Writing the composability matrix and its fallback policy"
    shell:
        "{params.python:q} scripts/phase0_composability.py --config {params.config:q}"
        " {params.measured:q} --output-dir results/{wildcards.run}/phase0 > {log:q} 2>&1"
