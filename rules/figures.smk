"""Tables and figures: truth and guess meet here, in a table."""


localrules:
    join_tables,
    plot_figure,
    write_verdict_table,
    adapter_table,


rule join_tables:
    """Join verdicts, estimates, predictions and step times into one table per figure."""
    input:
        measured="results/{run}/measured.json",
        predictions="results/{run}/predictor/predictions.json",
        cost_model="results/{run}/cost_model.json",
        step_times=f"{RECORDS}/step_times.json",
        effect_gate="results/{run}/effect_gate.json",
        certification=certifications_by_mode(),
        comparison=(
            "results/{run}/predictor/comparison.json"
            if can_compare_predictors()
            else []
        ),
        verdicts=expand(
            "results/{run}/verdicts/{adapter}.{mode}.json",
            adapter=ADAPTERS,
            mode=MODES,
            allow_missing=True,
        ),
    output:
        expand(
            "results/{run}/tables/{table}.csv",
            table=(*joined_tables(), "verdicts"),
            allow_missing=True,
        ),
    log:
        "logs/{run}/join_tables.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
        disk_mb=5,
    params:
        python=analysis_python(),
        code=code("join_tables"),
        settings=as_json(study_settings()),
        comparison=lambda wildcards, input: flag("--comparison", input.comparison),
    message:
        "Joining tables"
    shell:
        "{params.python:q} scripts/join_tables.py --measured {input.measured:q} --predictions {input.predictions:q}"
        " --cost-model {input.cost_model:q} --step-times {input.step_times:q} --effect-gate {input.effect_gate:q}"
        " --certification {input.certification:q} --verdicts {input.verdicts:q}"
        " {params.comparison:q} --settings {params.settings:q} --output-dir results/{wildcards.run}/tables > {log:q} 2>&1"


rule plot_figure:
    """Draw one figure from its table."""
    input:
        table=table_of_figure,
        captions="report/figure.rst",
    output:
        pdf="results/{run}/figures/{figure}.pdf",
        png=report(
            "results/{run}/figures/{figure}.png",
            caption="../report/figure.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        csv="results/{run}/figures/{figure}.csv",
        text="results/{run}/figures/{figure}.txt",
    log:
        "logs/{run}/plot_figure/{figure}.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
        disk_mb=5,
    params:
        python=analysis_python(),
        code=code("plot_figure"),
        figure=figure_name,
    message:
        "Drawing {wildcards.figure}"
    shell:
        "{params.python:q} scripts/plot_figure.py --table {input.table:q} --figure {params.figure:q} --captions {input.captions:q}"
        " --output-dir results/{wildcards.run}/figures > {log:q} 2>&1"


rule write_verdict_table:
    """Write the verdict table as a page for the report."""
    input:
        "results/{run}/tables/verdicts.csv",
    output:
        text="results/{run}/verdicts.txt",
        csv="results/{run}/verdicts.csv",
        page=report(
            "results/{run}/verdicts.html",
            caption="../report/verdicts.rst",
            category="Verdicts",
            labels={"table": "measured and predicted verdicts"},
        ),
    log:
        "logs/{run}/write_verdict_table.log",
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
        disk_mb=5,
    params:
        python=analysis_python(),
        code=code("write_verdict_table"),
    message:
        "Writing the verdict table"
    shell:
        "{params.python:q} scripts/write_verdict_table.py --table {input:q} --stem results/{wildcards.run}/verdicts"
        " > {log:q} 2>&1"


rule adapter_table:
    """Write the table of adapters: recipe, task score, and what of its domain the drafter has seen."""
    input:
        adapters=trained_dirs(),
        overlap=domain_overlap(),
    output:
        table="results/{run}/tables/adapters.csv",
        text="results/{run}/adapters.txt",
        page=report(
            "results/{run}/adapters.html",
            caption="../report/adapters.rst",
            category="Adapters",
            labels={"table": "recipes, task scores, overlap"},
        ),
    log:
        "logs/{run}/adapter_table.log",
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
        disk_mb=5,
    params:
        python=analysis_python(),
        code=code("adapter_table"),
        adapters=flag("--adapters", named_dirs(trained_adapters())),
        overlap=flag("--overlap", domain_overlap()),
        settings=as_json(adapter_table_settings()),
    message:
        "Writing the table of adapters"
    shell:
        "{params.python:q} scripts/adapter_table.py {params.adapters:q} {params.overlap:q} --settings {params.settings:q}"
        " --table {output.table:q} --stem results/{wildcards.run}/adapters > {log:q} 2>&1"


rule figures:
    """All figures of the tier, the verdict table and the fallback policy."""
    input:
        expand(
            "results/{run}/figures/{figure}.{ext}",
            run=RUN,
            figure=drawn_figures(),
            ext=("pdf", "png", "csv", "txt"),
        ),
        expand("results/{run}/{table}.html", run=RUN, table=("verdicts", "adapters"))
        if ADAPTERS
        else [],
        f"results/{RUN}/phase0/fallback_policy.json",
