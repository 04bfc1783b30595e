"""Adapters, their prompts and their features."""


localrules:
    freeze_prompts,
    domain_overlap,
    extract_features,
    derive_adapter,


rule train_adapter:
    """Train one adapter with PEFT by its row of the pool."""
    input:
        target=target_dir(),
        answers=own_answers_of,
        cleared=cleared,
    output:
        directory("results/{run}/adapters/{adapter}"),
    log:
        "logs/{run}/train_adapter/{adapter}.log",
    benchmark:
        "results/{run}/benchmarks/train_adapter/{adapter}.tsv"
    wildcard_constraints:
        adapter=either(TRAINED),
    threads: 1  # they decide the last bits of the weights; two adapters side by side are quicker than one on two
    resources:
        mem_mb=4000,
        runtime=60,
        disk_mb=ADAPTER_MB,
        gpu=NUM_GPUS,
    params:
        python=SERVING_PYTHON,
        code=code("train_adapter"),
        row=row_of,
        base_model_name=TIER.models.primary.target.name,
        answers=lambda wildcards, input: flag("--answers", input.answers),
        device=TIER.models.engine.device,
    message:
        "Training adapter {wildcards.adapter}"
    shell:
        "{params.python:q} scripts/train_adapter.py --target {input.target:q} --row {params.row:q} --num-threads {threads}"
        " --base-model-name {params.base_model_name:q} {params.answers:q} --device {params.device:q} --output {output:q} > {log:q} 2>&1"


rule derive_adapter:
    """Make one adapter from its parent: a multiple of it, or noise as large."""
    input:
        target=target_dir(),
        parent=parent_of,
    output:
        directory("results/{run}/adapters/{adapter}"),
    log:
        "logs/{run}/derive_adapter/{adapter}.log",
    wildcard_constraints:
        adapter=either(DERIVED),
    threads: 1
    resources:
        mem_mb=4000,
        runtime=10,
        disk_mb=ADAPTER_MB,
    params:
        python=SERVING_PYTHON,
        code=code("train_adapter"),
        row=row_of,
        base_model_name=TIER.models.primary.target.name,
    message:
        "Deriving adapter {wildcards.adapter}"
    shell:
        "{params.python:q} scripts/train_adapter.py --target {input.target:q} --row {params.row:q} --num-threads {threads}"
        " --base-model-name {params.base_model_name:q} --parent {input.parent:q} --output {output:q} > {log:q} 2>&1"


rule freeze_prompts:
    """Write the prompts of every role and check them against their frozen hashes."""
    output:
        "results/{run}/prompts.json",
    log:
        "logs/{run}/freeze_prompts.log",
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
        disk_mb=20,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("freeze_prompts"),
        settings=as_json(TIER.prompts),
    message:
        "Freezing the prompts"
    shell:
        "{params.python:q} scripts/freeze_prompts.py --settings {params.settings:q} --tier {params.tier:q}"
        " --output {output:q} > {log:q} 2>&1"


rule domain_overlap:
    """Count how much of each domain's text stands in the text that the drafter was distilled on."""
    input:
        target=target_dir(),
        trajectories=lambda wildcards: trajectories(),
        prompts=f"results/{RUN}/prompts.json",
    output:
        "results/{run}/domain_overlap.json",
    log:
        "logs/{run}/domain_overlap.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=5,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=SERVING_PYTHON,
        code=code("domain_overlap"),
        settings=overlap_settings(),
    message:
        "Counting how much of each domain the drafter was trained on"
    shell:
        "{params.python:q} scripts/domain_overlap.py --target {input.target:q} --trajectories {input.trajectories:q}"
        " --prompts {input.prompts:q} --settings {params.settings:q} --tier {params.tier:q} --output {output:q} > {log:q} 2>&1"


rule extract_features:
    """Turn one adapter's tensors into numbers, without torch and without a run of any model."""
    input:
        adapter=adapter_dir_of,
        profile=base_profile(),
    output:
        "results/{run}/features/{adapter}.json",
    log:
        "logs/{run}/extract_features/{adapter}.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("extract_features"),
        sha256=sha256_of,
        profile=lambda wildcards, input: flag("--base-profile", input.profile),
    message:
        "Reading adapter {wildcards.adapter}"
    shell:
        "{params.python:q} scripts/extract_features.py --adapter {input.adapter:q} --name {wildcards.adapter}"
        " {params.sha256:q} --tier {params.tier:q} {params.profile:q} --output {output:q} > {log:q} 2>&1"
