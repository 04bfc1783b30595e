"""Which figures there are, and which of them a run has something to draw for."""

FIGURES = {
    "fig1_composability": "composability",
    "fig2_paired_effect": "paired_effect",
    "fig3_predicted_vs_measured": "predicted_vs_measured",
    "fig4_predictor_scores": "predictor_scores",
    "fig4b_probe_curve": "probe_curve",
    "fig5_rank_disagreement": "rank_disagreement",
    "fig5b_gate_regret": "gate_regret",
    "fig6_decision_map": "decision_map",
    "fig7_cost_model_fit": "cost_model_fit",
    "fig8_risk_coverage": "risk_coverage",
    "fig10_serving_stress": "serving_stress",
    "fig10b_simulated_stress": "simulated_stress",
}


def joined_tables():
    """Return the tables that verdicts, estimates and step times are joined into; other figures have sources of their own."""
    apart = ("composability", "predictor_scores", "probe_curve", "gate_regret")
    apart += ("serving_stress", "simulated_stress")
    return [name for name in FIGURES.values() if name not in apart]


def drawn_figures():
    """Return the figures that there is something to draw for."""
    shown = {name: bool(ADAPTERS) for name in FIGURES}
    shown["fig1_composability"] = bool(phase0_observations())
    shown["fig4_predictor_scores"] = can_compare_predictors()
    shown["fig4b_probe_curve"] = has_probe_curve()
    shown["fig5b_gate_regret"] = can_compare_predictors()
    shown["fig10_serving_stress"] = has_live_stress()
    shown["fig10b_simulated_stress"] = bool(step_cost_reports())
    return tuple(name for name, is_shown in shown.items() if is_shown)


def figure_name(wildcards):
    """Return the name by which the library knows a figure."""
    return FIGURES[wildcards.figure]


def table_of_figure(wildcards):
    """Return the table that a figure is drawn from."""
    return f"results/{wildcards.run}/tables/{FIGURES[wildcards.figure]}.csv"
