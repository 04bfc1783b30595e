"""The ``step_cost`` and ``step_cost_validation`` results: their payloads, and reading them."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from lora_spec.cost_model.benefit_sign import SignVerdict
from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.cost_model.step_validation import HeldOutStep
from lora_spec.cost_model.validation import ErrorVerdict
from lora_spec.records import Evidence
from lora_spec.results import Result, naming
from lora_spec.typed import read_typed_result


class StepCostPayload(TypedDict):
    """What :meth:`StepCostModel.to_dict` gives."""

    schema_version: Literal["1"]
    part_names: list[str]
    parts_ms: list[float]
    part_draws_ms: list[list[float]]
    loads_ms: list[float]
    load_draws_ms: list[list[float]]
    context: dict[str, Any]
    has_drafter: bool
    has_lora: bool


class StepCostValidationPayload(TypedDict):
    """What :func:`lora_spec.cost_model.step_validation.validate_step_costs` gives."""

    step_error: ErrorVerdict
    step_error_by_kind: dict[str, ErrorVerdict]
    benefit_sign: SignVerdict
    adapter_loads: list[dict[str, float]]
    table_difference: dict[str, float] | None
    cells: list[HeldOutStep]


def read_step_cost_result(
    path: Path, *, evidence: Collection[Evidence] = ("measured",), tier: str | None = None
) -> Result:
    """Return the result of a fit, whose payload makes a model; raises ResultError that names the file."""
    result = read_typed_result(path, "step_cost", StepCostPayload, evidence=evidence, tier=tier)
    with naming(path):
        StepCostModel.from_dict(result.payload)
    return result


def read_step_costs(path: Path, *, tier: str | None = None) -> StepCostModel:
    """Return measured step costs; raises as :func:`read_step_cost_result`."""
    return StepCostModel.from_dict(read_step_cost_result(path, tier=tier).payload)


def read_step_cost_validation(path: Path, *, tier: str | None = None) -> Result:
    """Return the result with its verdicts as plain data; raises ResultError that names the file."""
    return read_typed_result(path, "step_cost_validation", StepCostValidationPayload, tier=tier)
