"""The second pair: its models, the adapters made again for it, and how findings move there."""


localrules:
    assemble_confirm_drafter,
    pad_confirm_drafter,
    phase2_confirm_plan,
    report_transfer,


rule train_target:
    """Train the second target on the text that the first one wrote (minutes of one core; the model is shipped)."""
    input:
        teacher=target_dir(),
        answers=trajectories(),
        cleared=cleared,
    output:
        model=directory("results/{run}/confirm/models/target"),
        curve="results/{run}/confirm/models/target_curve.json",
    log:
        "logs/{run}/train_target.log",
    benchmark:
        "results/{run}/benchmarks/train_target.tsv"
    threads: 1
    resources:
        mem_mb=3000,
        runtime=240,
        gpu=NUM_GPUS,
        disk_mb=100,
    params:
        tier=TIER.name,
        python=SERVING_PYTHON,
        code=code("train_target"),
        settings=as_json(CONFIRM.target.training),
        state="resources/target_state/{run}",
    message:
        "Training the second target"
    shell:
        "{params.python:q} scripts/train_target.py --teacher {input.teacher:q} --answers {input.answers:q}"
        " --settings {params.settings:q} --tier {params.tier:q} --state {params.state:q}"
        " --output {output.model:q} --curve {output.curve:q} > {log:q} 2>&1"


use rule generate_trajectories as generate_confirm_trajectories with:
    input:
        target=confirm_target(),
        cleared=cleared,
    output:
        directory("results/{run}/confirm/trajectories"),
    log:
        "logs/{run}/generate_confirm_trajectories.log",
    benchmark:
        "results/{run}/benchmarks/generate_confirm_trajectories.tsv"
    params:
        python=SERVING_PYTHON,
        code=code("generate_trajectories"),
        settings=trajectory_settings(CONFIRM),
        engine=as_json(TIER.models.engine),
        shards="resources/confirm_trajectories/{run}",
    message:
        "Generating the second target's own trajectories"


use rule train_drafter as train_confirm_drafter with:
    input:
        target=confirm_target(),
        trajectories=lambda wildcards: trajectories(CONFIRM, "confirm/"),
        cleared=cleared,
    output:
        layers="results/{run}/confirm/models/drafter_layers.safetensors",
        early="results/{run}/confirm/models/drafter_early_layers.safetensors",
        curve="results/{run}/confirm/models/drafter_curve.json",
    log:
        "logs/{run}/train_confirm_drafter.log",
    benchmark:
        "results/{run}/benchmarks/train_confirm_drafter.tsv"
    params:
        tier=TIER.name,
        python=SERVING_PYTHON,
        code=code("train_drafter"),
        settings=chosen(CONFIRM.drafter, "source", "training"),
        state="resources/confirm_drafter_state/{run}",
    message:
        "Distilling the second target's drafter"


use rule assemble_drafter as assemble_confirm_drafter with:
    input:
        target=confirm_target(),
        layers=layers_of(CONFIRM.drafter, "drafter_layers", "confirm/"),
    output:
        directory("results/{run}/confirm/models/drafter"),
    log:
        "logs/{run}/assemble_confirm_drafter.log",
    params:
        python=SERVING_PYTHON,
        code=code("assemble_drafter"),
        settings=as_json(CONFIRM.drafter.source),
    message:
        "Assembling the second target's drafter"


use rule pad_drafter as pad_confirm_drafter with:
    input:
        target=confirm_target(),
        drafter=lambda wildcards: hub_dir(CONFIRM.drafter.source),
    output:
        directory("results/{run}/confirm/models/padded_drafter"),
    log:
        "logs/{run}/pad_confirm_drafter.log",
    resources:
        mem_mb=8000,
        runtime=20,
        disk_mb=lambda wildcards: size_mb(CONFIRM.drafter),
    message:
        "Padding the second drafter's vocabulary to its target's"


checkpoint phase2_confirm_plan:
    """Choose which adapters are confirmed, from predictions alone: the extremes, and a random part of the rest."""
    input:
        predictions="results/{run}/predictor/predictions.json",
    output:
        "results/{run}/confirm/plan.json",
    log:
        "logs/{run}/phase2_confirm_plan.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
        disk_mb=1,
    params:
        python=analysis_python(),
        code=code("phase2_confirm"),
        rule=as_json(TIER.adapter_pool.confirm_pool),
        config=TIER.path_of("phase1_measurement").relative_to(ROOT),
    message:
        "Choosing the adapters to confirm"
    shell:
        "{params.python:q} scripts/phase2_confirm.py --config {params.config:q} --predictions {input.predictions:q}"
        " --output-dir results/{wildcards.run}/confirm > {log:q} 2>&1"


use rule train_adapter as train_confirm_adapter with:
    input:
        target=confirm_target(),
        answers=confirm_answers_of,
        cleared=cleared,
    output:
        directory("results/{run}/confirm/adapters/{adapter}"),
    log:
        "logs/{run}/train_confirm_adapter/{adapter}.log",
    benchmark:
        "results/{run}/benchmarks/train_confirm_adapter/{adapter}.tsv"
    wildcard_constraints:
        adapter=either(TIER.adapter_pool.remade),
    params:
        python=SERVING_PYTHON,
        code=code("train_adapter"),
        row=confirm_row_of,
        base_model_name=CONFIRM.target.name,
        answers=lambda wildcards, input: flag("--answers", input.answers),
        device=TIER.models.engine.device,
    message:
        "Training adapter {wildcards.adapter} for the second target"


rule phase2_confirm:
    """Measure predicted extremes and a random part of the rest on the second pair, resumable."""
    input:
        target=confirm_target(),
        drafter=confirm_drafter(),
        prompts=f"results/{RUN}/prompts.json",
        predictions=f"results/{RUN}/predictor/predictions.json",
        adapters=confirmed_dirs,
        cleared=cleared,
    output:
        directory("results/{run}/confirm/acceptance"),
    log:
        "logs/{run}/phase2_confirm.log",
    benchmark:
        "results/{run}/benchmarks/phase2_confirm.tsv"
    threads: 2
    resources:
        mem_mb=7000,
        runtime=120,
        disk_mb=200,
        gpu=NUM_GPUS,
    params:
        python=SERVING_PYTHON,
        preload=preloaded(),
        code=code("phase2_confirm"),
        adapters=confirmed_pairs,
        counting=counting(),
        engine=as_json(TIER.models.engine),
        config=TIER.path_of("phase1_measurement").relative_to(ROOT),
    message:
        "Measuring the chosen adapters on the second pair"
    shell:
        "LORA_SPEC_PROGRESS_FD=3 LD_PRELOAD={params.preload:q} {params.python:q} scripts/phase2_confirm.py --config {params.config:q} --execute"
        " --predictions {input.predictions:q} --target {input.target:q} --drafter {input.drafter:q} --adapters {params.adapters:q}"
        " --state resources/confirm_records/{wildcards.run} --output-dir {output:q} 3>&2 > {log:q} 2>&1"


rule report_transfer:
    """Report how predictions and measurements of the first pair stand to measurements on the second."""
    input:
        plan=confirm_plan,
        records=f"{CONFIRM_RECORDS}/acceptance",
        measured="results/{run}/measured.json",
    output:
        measured="results/{run}/confirm/measured.json",
        transfer="results/{run}/confirm/transfer.json",
    log:
        "logs/{run}/report_transfer.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("report_transfer"),
        settings=chosen(TIER.phase1_measurement, *ESTIMATING),
        expected=as_json(expected_measurement(CONFIRM)),
    message:
        "Reporting how findings move to the second pair"
    shell:
        "{params.python:q} scripts/report_transfer.py --plan {input.plan:q} --records {input.records:q} --measured {input.measured:q}"
        " --settings {params.settings:q} --expected {params.expected:q} --tier {params.tier:q}"
        " --confirm-measured {output.measured:q} --output {output.transfer:q} > {log:q} 2>&1"
