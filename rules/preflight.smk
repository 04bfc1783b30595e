"""Asked in minutes before anything that takes hours: can this tier run here at all?"""


rule preflight:
    """Check GPU, driver, vLLM, pinned revisions, licences and free disk; fail with all problems at once."""
    output:
        PREFLIGHT,
    log:
        f"logs/{RUN}/preflight.log",
    # What a machine lacks it lacks at the next attempt as well; a profile's retries would tell it three times.
    retries: 0
    threads: 1
    resources:
        mem_mb=4000,
        runtime=15,
        gpu=NUM_GPUS,
        disk_mb=1,
    params:
        tier=TIER.name,
        python=analysis_python(),
        serving=SERVING_PYTHON,
        code=code("preflight"),
        settings=as_json(asked_of_machine()),
    message:
        "Checking machine, revisions and licences before any long job"
    shell:
        "{params.python:q} scripts/preflight.py --settings {params.settings:q} --serving-python {params.serving:q}"
        " --tier {params.tier:q} --output {output:q} > {log:q} 2>&1"
