"""From adapter checkpoints to verdicts and figures: one workflow for every tier (see README.md)."""

from snakemake.utils import min_version

min_version("9.27")


report: "report/workflow.rst"


# Lint asks for an environment per rule. Ours are the two venvs that `make` builds, in a container too
# (envs/Dockerfile, envs/apptainer.def, which start from this image).
container: "docker://python:3.11-slim-bookworm"


include: "rules/common.smk"
include: "rules/hub_helpers.smk"
include: "rules/adapter_helpers.smk"
include: "rules/measure_helpers.smk"
include: "rules/decide_helpers.smk"
include: "rules/figure_helpers.smk"
include: "rules/models.smk"
include: "rules/hub.smk"
include: "rules/adapters.smk"
include: "rules/phase0.smk"
include: "rules/measure.smk"
include: "rules/calibration.smk"
include: "rules/decide.smk"
include: "rules/stress.smk"
include: "rules/figures.smk"


if TIER.models.preflight is not None:

    include: "rules/preflight.smk"


if TIER.models.confirm is not None:

    include: "rules/confirm_helpers.smk"
    include: "rules/confirm.smk"


wildcard_constraints:
    run=re.escape(RUN),
    adapter=either(TIER.adapter_pool.names),
    figure=either(FIGURES),
    mode=either(MODES),


if not ADAPTERS:
    logger.warning(
        f"tier {TIER.name} ships no acceptance records yet: only the matrix of engine features is drawn; add --config measurements=fresh"
    )


localrules:
    all,
    calibration,
    unseen_families,
    records,
    verdicts,
    figures,
    step_cost,
    stress,


rule all:
    """Everything of the tier: verdicts, policy, tables, figures, and the report on its second pair."""
    default_target: True
    input:
        rules.verdicts.input,
        rules.figures.input,
        expand("results/{run}/policy/policy.json", run=RUN) if ADAPTERS else [],
        screen_tables(),
        noise_reports(),
        unseen_families_results(),
        transfer_reports(),
        step_cost_reports(),
        stress_reports(),
