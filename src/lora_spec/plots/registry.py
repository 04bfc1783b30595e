"""All figures under their names, for the one script that draws them. Knows nothing of where tables come from."""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from lora_spec.errors import ConfigError
from lora_spec.plots.composability import draw_composability
from lora_spec.plots.cost_model_fit import draw_cost_model_fit
from lora_spec.plots.decision_map import draw_decision_map
from lora_spec.plots.gate_regret import draw_gate_regret
from lora_spec.plots.paired_effect import draw_paired_effect
from lora_spec.plots.policy_schemas import GATE_REGRET, SERVING_STRESS, SIMULATED_STRESS
from lora_spec.plots.predicted_vs_measured import draw_predicted_vs_measured
from lora_spec.plots.predictor_scores import draw_predictor_scores
from lora_spec.plots.probe_curve import draw_probe_curve
from lora_spec.plots.rank_disagreement import draw_rank_disagreement
from lora_spec.plots.risk_coverage import draw_risk_coverage
from lora_spec.plots.schemas import (
    COMPOSABILITY,
    COST_MODEL_FIT,
    DECISION_MAP,
    PAIRED_EFFECT,
    PREDICTED_VS_MEASURED,
    PREDICTOR_SCORES,
    PROBE_CURVE,
    RANK_DISAGREEMENT,
    RISK_COVERAGE,
    FrameSchema,
)
from lora_spec.plots.serving_stress import draw_serving_stress


@dataclass(frozen=True)
class FigureSpec:
    """One figure: its number in the paper, its table and the function that draws it."""

    number: str
    schema: FrameSchema
    draw: Callable[[pd.DataFrame], Figure]

    @property
    def stem(self) -> str:
        """Return the file name without ending, for example ``fig2_paired_effect``."""
        return f"fig{self.number}_{self.schema.name}"


FIGURES = {
    spec.schema.name: spec
    for spec in (
        FigureSpec("1", COMPOSABILITY, draw_composability),
        FigureSpec("2", PAIRED_EFFECT, draw_paired_effect),
        FigureSpec("3", PREDICTED_VS_MEASURED, draw_predicted_vs_measured),
        FigureSpec("4", PREDICTOR_SCORES, draw_predictor_scores),
        FigureSpec("4b", PROBE_CURVE, draw_probe_curve),
        FigureSpec("5", RANK_DISAGREEMENT, draw_rank_disagreement),
        FigureSpec("5b", GATE_REGRET, draw_gate_regret),
        FigureSpec("6", DECISION_MAP, draw_decision_map),
        FigureSpec("7", COST_MODEL_FIT, draw_cost_model_fit),
        FigureSpec("8", RISK_COVERAGE, draw_risk_coverage),
        FigureSpec("10", SERVING_STRESS, draw_serving_stress),
        FigureSpec("10b", SIMULATED_STRESS, draw_serving_stress),
    )
}


def get_figure(name: str) -> FigureSpec:
    """Return one figure by name, such as ``paired_effect``."""
    if name not in FIGURES:
        raise ConfigError(f"no figure {name!r}; there are {', '.join(FIGURES)}")
    return FIGURES[name]
