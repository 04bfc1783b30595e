"""From records to verdicts: fit the predictor and the cost model, then decide."""


localrules:
    fit_cost_model,
    fit_step_cost,
    validate_step_cost,
    estimate_acceptance,
    seed_noise,
    phase1_effect_gate,
    phase3_predictor,
    phase3_predictor_probed,
    certify_verdicts,
    certify_verdicts_probed,
    compare_predictors,
    hold_out_families,
    decide,
    policy,
    gate_regret,


rule fit_cost_model:
    """Fit step time against depth and batch size."""
    input:
        f"{RECORDS}/step_times.json",
    output:
        "results/{run}/cost_model.json",
    log:
        "logs/{run}/fit_cost_model.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("fit_cost_model"),
        settings=chosen(TIER.gate, "num_uncertainty_draws", "seed"),
        engine=as_json(expected_engine()),
    message:
        "Fitting the cost model"
    shell:
        "{params.python:q} scripts/fit_cost_model.py --step-times {input:q} --settings {params.settings:q}"
        " --engine {params.engine:q} --tier {params.tier:q} --output {output:q} > {log:q} 2>&1"


rule fit_step_cost:
    """Fit the parts of a step, for any mix of depths, prompt and context."""
    input:
        f"{RECORDS}/cost_parts.json",
    output:
        "results/{run}/step_cost.json",
    log:
        "logs/{run}/fit_step_cost.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("fit_step_cost"),
        settings=chosen(TIER.gate, "num_uncertainty_draws", "seed"),
        engine=as_json(expected_engine()),
    message:
        "Fitting the parts of a step"
    shell:
        "{params.python:q} scripts/fit_step_cost.py --cost-parts {input:q} --settings {params.settings:q}"
        " --engine {params.engine:q} --tier {params.tier:q} --output {output:q} > {log:q} 2>&1"


rule validate_step_cost:
    """Hold the parts of a step against cells timed for validation alone: TPOT error and sign of the benefit."""
    input:
        cost_parts=f"{RECORDS}/cost_parts.json",
        step_cost="results/{run}/step_cost.json",
        cost_model="results/{run}/cost_model.json",
        measured="results/{run}/measured.json",
    output:
        "results/{run}/step_cost_validation.json",
    log:
        "logs/{run}/validate_step_cost.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("validate_step_cost"),
    message:
        "Holding the parts of a step against cells that they were not fitted to"
    shell:
        "{params.python:q} scripts/validate_step_cost.py --cost-parts {input.cost_parts:q} --step-cost {input.step_cost:q}"
        " --cost-model {input.cost_model:q} --measured {input.measured:q} --tier {params.tier:q}"
        " --output {output:q} > {log:q} 2>&1"


rule step_cost:
    """What a step is made of, and how well that foretells steps not seen: asked for by name, or shipped."""
    input:
        f"results/{RUN}/step_cost_validation.json",


rule estimate_acceptance:
    """Turn counts into acceptance estimates and paired effects with bootstrap intervals."""
    input:
        records("acceptance", "parquet"),
    output:
        "results/{run}/measured.json",
    log:
        "logs/{run}/estimate_acceptance.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("estimate_acceptance"),
        settings=chosen(TIER.phase1_measurement, *ESTIMATING),
        expected=as_json(expected_measurement()),
    message:
        "Estimating acceptance and paired effects"
    shell:
        "{params.python:q} scripts/estimate_acceptance.py --records {input:q} --settings {params.settings:q}"
        " --expected {params.expected:q} --tier {params.tier:q} --output {output:q} > {log:q} 2>&1"


rule seed_noise:
    """Tell how far acceptance moves between adapters that differ in nothing but their seed: the noise floor."""
    input:
        records("acceptance", "parquet"),
    output:
        "results/{run}/seed_noise.json",
    log:
        "logs/{run}/seed_noise.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("seed_noise"),
        settings=as_json(seed_noise_settings(TIER, ADAPTERS)),
    message:
        "Measuring the noise of training from repeats"
    shell:
        "{params.python:q} scripts/seed_noise.py --records {input:q} --settings {params.settings:q} --tier {params.tier:q}"
        " --output {output:q} > {log:q} 2>&1"


rule phase1_effect_gate:
    """Judge by the pre-registered rule whether adapters change acceptance enough to act: GO, INVESTIGATE, STOP."""
    input:
        records=records("acceptance", "parquet"),
        live=live_records(),
        cost_model="results/{run}/cost_model.json",
    output:
        "results/{run}/effect_gate.json",
    log:
        "logs/{run}/phase1_effect_gate.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("phase1_effect_gate"),
        settings=as_json(effect_settings(TIER, ADAPTERS)),
    message:
        "Judging the effect of adapters on acceptance"
    shell:
        "{params.python:q} scripts/phase1_effect_gate.py --records {input.records:q} --live-records {input.live:q}"
        " --cost-model {input.cost_model:q} --settings {params.settings:q} --tier {params.tier:q}"
        " --output {output:q} > {log:q} 2>&1"


rule phase3_predictor:
    """Fit the predictor on all adapters, and predict each from the others' domains."""
    input:
        features=records("features"),
        records=records("acceptance", "parquet"),
        kept=kept_fits("predictor", "predictions"),
    output:
        predictor="results/{run}/predictor/predictor.json",
        predictions="results/{run}/predictor/predictions.json",
    log:
        "logs/{run}/phase3_predictor.log",
    threads: 2
    resources:
        mem_mb=1000,
        runtime=10,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("phase3_predictor"),
        settings=as_json(predictor_settings()),
        calibration=[],
        output_dir="results/{run}/predictor",
    message:
        "Fitting the predictor, leaving one domain out at a time"
    shell:
        "{params.python:q} scripts/phase3_predictor.py --features {input.features:q} --records {input.records:q}"
        " {params.calibration:q} --settings {params.settings:q} --tier {params.tier:q} --kept {input.kept:q}"
        " --threads {threads} --output-dir {params.output_dir:q} > {log:q} 2>&1"


use rule phase3_predictor as phase3_predictor_probed with:
    input:
        features=records("features"),
        records=records("acceptance", "parquet"),
        calibration=calibration_records(),
        kept=kept_fits("probed/predictor", "probed/predictions"),
    output:
        predictor="results/{run}/predictor/probed/predictor.json",
        predictions="results/{run}/predictor/probed/predictions.json",
    log:
        "logs/{run}/phase3_predictor_probed.log",
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("phase3_predictor"),
        settings=as_json(predictor_settings()),
        calibration=flag("--calibration", calibration_records()),
        output_dir="results/{run}/predictor/probed",
    message:
        "Fitting the predictor on calibration probes, leaving one domain out at a time"


rule certify_verdicts:
    """Choose how doubtful a predicted verdict may be on half of the sources, and certify it on the other half."""
    input:
        measured="results/{run}/measured.json",
        predictions="results/{run}/predictor/predictions.json",
        cost_model="results/{run}/cost_model.json",
    output:
        "results/{run}/certification.json",
    log:
        "logs/{run}/certify_verdicts.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("certify_verdicts"),
        settings=as_json({"gate": plain(TIER.gate), "domains": scored_domains()}),
    message:
        "Choosing and certifying which predicted verdicts are committed"
    shell:
        "{params.python:q} scripts/certify_verdicts.py --measured {input.measured:q} --predictions {input.predictions:q}"
        " --cost-model {input.cost_model:q} --settings {params.settings:q} --tier {params.tier:q}"
        " --output {output:q} > {log:q} 2>&1"


use rule certify_verdicts as certify_verdicts_probed with:
    input:
        measured="results/{run}/measured.json",
        predictions="results/{run}/predictor/probed/predictions.json",
        cost_model="results/{run}/cost_model.json",
    output:
        "results/{run}/predictor/probed/certification.json",
    log:
        "logs/{run}/certify_verdicts_probed.log",
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("certify_verdicts"),
        settings=as_json({"gate": plain(TIER.gate), "domains": scored_domains()}),
    message:
        "Choosing and certifying which verdicts after a probe are committed"


rule compare_predictors:
    """Score every predictor in every mode against the nulls, on adapters whose domain their fits did not see."""
    input:
        features=records("features"),
        records=records("acceptance", "parquet"),
        calibration=calibration_records(),
        cost_model="results/{run}/cost_model.json",
        kept=kept_fits("comparison"),
    output:
        comparison="results/{run}/predictor/comparison.json",
        table="results/{run}/tables/predictor_scores.csv",
        curve=probe_curve_table(),
    log:
        "logs/{run}/compare_predictors.log",
    benchmark:
        "results/{run}/benchmarks/compare_predictors.tsv"
    threads: 2
    resources:
        mem_mb=1000,
        runtime=20,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("compare_predictors"),
        kept=flag("--kept", kept_fits("comparison")),
        settings=as_json(comparison_settings()),
    message:
        "Comparing predictors and nulls, leaving one domain out at a time"
    shell:
        "{params.python:q} scripts/compare_predictors.py --features {input.features:q} --records {input.records:q}"
        " --calibration {input.calibration:q} --cost-model {input.cost_model:q} --settings {params.settings:q} --tier {params.tier:q}"
        " --output {output.comparison:q} --figure-table {output.table:q} --curve-table {output.curve:q}"
        " {params.kept:q} --threads {threads} > {log:q} 2>&1"


rule hold_out_families:
    """Predict adapters without their whole family, of method, modules or source, and count who is abstained on."""
    input:
        features=records("features"),
        records=records("acceptance", "parquet"),
        predictions="results/{run}/predictor/predictions.json",
        certification="results/{run}/certification.json",
        cost_model="results/{run}/cost_model.json",
        kept=kept_fits("unseen_families"),
    output:
        "results/{run}/predictor/unseen_families.json",
    log:
        "logs/{run}/hold_out_families.log",
    benchmark:
        "results/{run}/benchmarks/hold_out_families.tsv"
    threads: 2
    resources:
        mem_mb=1000,
        runtime=120,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("hold_out_families"),
        kept=flag("--kept", kept_fits("unseen_families")),
        settings=as_json(unseen_families_settings()),
    message:
        "Predicting adapters without their whole family"
    shell:
        "{params.python:q} scripts/hold_out_families.py --features {input.features:q} --records {input.records:q}"
        " --predictions {input.predictions:q} --certification {input.certification:q} --cost-model {input.cost_model:q}"
        " --settings {params.settings:q} {params.kept:q} --threads {threads} --tier {params.tier:q}"
        " --output {output:q} > {log:q} 2>&1"


rule unseen_families:
    """Whether whole unseen families raise the share that the gate abstains on."""
    input:
        f"results/{RUN}/predictor/unseen_families.json",


rule decide:
    """Give every adapter its verdicts: from its measured acceptance and from the predictions without it."""
    input:
        features=records("features"),
        measured="results/{run}/measured.json",
        predictions=predictions_by_mode(),
        cost_model="results/{run}/cost_model.json",
        certification=certifications_by_mode(),
    output:
        expand(
            "results/{run}/verdicts/{adapter}.{mode}.json",
            adapter=ADAPTERS,
            mode=MODES,
            allow_missing=True,
        ),
    log:
        "logs/{run}/decide.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
        disk_mb=10,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("decide"),
        gate=as_json(TIER.gate),
        context=as_json(pair_names()),
    message:
        "Deciding"
    shell:
        "{params.python:q} scripts/decide.py --features {input.features:q} --measured {input.measured:q}"
        " --predictions {input.predictions:q} --cost-model {input.cost_model:q}"
        " --certification {input.certification:q} --gate {params.gate:q} --context {params.context:q}"
        " --tier {params.tier:q} --output-dir results/{wildcards.run}/verdicts > {log:q} 2>&1"


rule policy:
    """Turn the measured verdicts into a policy for engines, a plan of pools, a profile per adapter, and a fleet page."""
    input:
        verdicts=expand(
            "results/{run}/verdicts/{adapter}.measured.json",
            adapter=ADAPTERS,
            allow_missing=True,
        ),
        measured="results/{run}/measured.json",
        cost_model="results/{run}/cost_model.json",
        step_cost=step_cost(),
    output:
        policy="results/{run}/policy/policy.json",
        pools="results/{run}/policy/pools.json",
        script="results/{run}/policy/pools.sh",
        profiles=expand(
            "results/{run}/policy/profiles/{adapter}.speculation_profile.json",
            adapter=ADAPTERS,
            allow_missing=True,
        ),
        page=report(
            "results/{run}/policy/fleet.html",
            caption="../report/fleet.rst",
            category="Verdicts",
            labels={"table": "fleet policy"},
        ),
    log:
        "logs/{run}/policy.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
        disk_mb=20,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("write_policy"),
        gate=as_json(TIER.gate),
        serving=served_flags(),
        adapters=named_dirs(ADAPTERS),
        step_cost=lambda wildcards, input: flag("--step-cost", input.step_cost),
    message:
        "Writing the fleet's policy"
    shell:
        "{params.python:q} scripts/write_policy.py --verdicts {input.verdicts:q} --measured {input.measured:q}"
        " --cost-model {input.cost_model:q} --gate {params.gate:q} --adapters {params.adapters:q} {params.serving:q}"
        " {params.step_cost:q}"
        " --tier {params.tier:q} --output-dir results/{wildcards.run}/policy > {log:q} 2>&1"


rule gate_regret:
    """Hold every policy against the oracle over mixes of adapters, and verdicts against off and standing at every load."""
    input:
        measured="results/{run}/measured.json",
        predictions=predictions_by_mode(),
        cost_model="results/{run}/cost_model.json",
        calibration=calibration_records() if has_probe_curve() else [],
        step_cost=step_cost(),
        verdicts=expand(
            "results/{run}/verdicts/{adapter}.{mode}.json",
            adapter=ADAPTERS,
            mode=MODES,
            allow_missing=True,
        ),
    output:
        result="results/{run}/gate_regret.json",
        table="results/{run}/tables/gate_regret.csv",
    log:
        "logs/{run}/gate_regret.log",
    benchmark:
        "results/{run}/benchmarks/gate_regret.tsv"
    threads: 2
    resources:
        mem_mb=1000,
        runtime=15,
        disk_mb=5,
    params:
        tier=TIER.name,
        python=analysis_python(),
        code=code("gate_regret"),
        settings=as_json(gate_regret_settings()),
        calibration=lambda wildcards, input: flag("--calibration", input.calibration),
        step_cost=lambda wildcards, input: flag("--step-cost", input.step_cost),
    message:
        "Holding policies against the oracle"
    shell:
        "{params.python:q} scripts/gate_regret.py --measured {input.measured:q} --predictions {input.predictions:q}"
        " --cost-model {input.cost_model:q} --verdicts {input.verdicts:q} {params.calibration:q} {params.step_cost:q}"
        " --settings {params.settings:q} --threads {threads} --tier {params.tier:q}"
        " --output {output.result:q} --figure-table {output.table:q} > {log:q} 2>&1"


rule verdicts:
    """All verdicts of the tier."""
    input:
        expand(
            "results/{run}/verdicts/{adapter}.{mode}.json",
            run=RUN,
            adapter=ADAPTERS,
            mode=MODES,
        ),
