"""Turns an acceptance estimate and a load into time: T_K(B), speedup, goodput, break-even.

Knows nothing of adapters or predictors: it takes an acceptance with its interval, whoever made it.
"""

from lora_spec.cost_model.break_even import break_even_token_acceptance_prob, iid_acceptance_length
from lora_spec.cost_model.fitting import fit_cost_model
from lora_spec.cost_model.model import CostEstimate, CostModel
from lora_spec.cost_model.step_cost import StepCost
from lora_spec.cost_model.step_fitting import fit_step_costs
from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.cost_model.validation import StepTimePair, compare_with_line, held_out_error, judge_tpot_error

__all__ = [
    "CostEstimate",
    "CostModel",
    "StepCost",
    "StepCostModel",
    "StepTimePair",
    "break_even_token_acceptance_prob",
    "compare_with_line",
    "fit_cost_model",
    "fit_step_costs",
    "held_out_error",
    "iid_acceptance_length",
    "judge_tpot_error",
]
