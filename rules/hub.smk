"""What comes from a model hub: weights at immutable revisions, and drafters made to fit their targets."""


localrules:
    fetch_hub_model,
    pad_drafter,


rule fetch_hub_model:
    """Download a model or an adapter of the hub at its immutable revision; none is fetched where that is null."""
    input:
        cleared=cleared,
    output:
        directory("resources/hub/{owner}/{repo}"),
    log:
        "logs/hub/{owner}/{repo}.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=120,
        disk_mb=hub_size_of,
    params:
        python=SERVING_PYTHON,
        code=code("fetch_hub_model"),
        settings=hub_source_of,
    message:
        "Downloading {wildcards.owner}/{wildcards.repo}"
    shell:
        "{params.python:q} scripts/fetch_hub_model.py --settings {params.settings:q} --output {output:q} > {log:q} 2>&1"


rule pad_drafter:
    """Give a drafter from the hub as many tokens as its target has, or vLLM refuses the pair."""
    input:
        target=target_dir(),
        drafter=lambda wildcards: hub_dir(TIER.models.primary.drafter.source),
    output:
        directory("results/{run}/models/padded_drafter"),
    log:
        "logs/{run}/pad_drafter.log",
    threads: 1
    resources:
        mem_mb=8000,
        runtime=20,
        disk_mb=lambda wildcards: size_mb(TIER.models.primary.drafter),
    params:
        python=SERVING_PYTHON,
        code=code("pad_drafter"),
    message:
        "Padding the drafter's vocabulary to its target's"
    shell:
        "{params.python:q} scripts/pad_drafter.py --target {input.target:q} --drafter {input.drafter:q}"
        " --output {output:q} > {log:q} 2>&1"
