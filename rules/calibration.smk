"""What a few calibration prompts say of an adapter: its own short texts, read by base, adapted target and drafter."""


rule calibration_probe:
    """Probe every adapter on its calibration prompts, adapter by adapter, resumable."""
    input:
        target=target_dir(),
        drafter=drafter_dir(),
        prompts=f"results/{RUN}/prompts.json",
        adapters=[adapter_dir(name) for name in calibrated_adapters()],
        cleared=cleared,
    output:
        expand(
            "results/{run}/calibration/{adapter}.parquet",
            adapter=calibrated_adapters(),
            allow_missing=True,
        ),
    log:
        "logs/{run}/calibration_probe.log",
    benchmark:
        "results/{run}/benchmarks/calibration_probe.tsv"
    threads: 2
    resources:
        mem_mb=7000,
        runtime=120,
        disk_mb=400,
        gpu=NUM_GPUS,
    params:
        python=SERVING_PYTHON,
        preload=preloaded(),
        code=code("calibration_probe"),
        names=calibrated_adapters(),
        adapters=named_dirs(calibrated_adapters()),
        depth=chosen(TIER.phase1_measurement, "max_depth"),
        batch=chosen(TIER.phase1_measurement.counting, "max_num_seqs"),
        engine=as_json(TIER.models.engine),
        config=TIER.path_of("phase1_measurement").relative_to(ROOT),
    message:
        "Probing {params.names} on their calibration prompts"
    shell:
        "LORA_SPEC_PROGRESS_FD=3 LD_PRELOAD={params.preload:q} {params.python:q} scripts/calibration_probe.py --config {params.config:q} --execute"
        " --names {params.names:q} --target {input.target:q} --drafter {input.drafter:q} --adapters {params.adapters:q}"
        " --state resources/calibration/{wildcards.run} --output-dir results/{wildcards.run}/calibration 3>&2 > {log:q} 2>&1"


rule calibration:
    """The calibration records of all adapters: probed by this run, or shipped."""
    input:
        calibration_records(),
