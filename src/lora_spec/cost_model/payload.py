"""The ``cost_model`` result: its payload, and reading it."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from lora_spec.cost_model.model import CostModel
from lora_spec.records import Evidence
from lora_spec.results import Result, naming
from lora_spec.typed import read_typed_result


class CostModelPayload(TypedDict):
    """What :meth:`CostModel.to_dict` gives."""

    schema_version: Literal["1"]
    depths: list[int]
    batch_sizes: list[int]
    median_ms: list[list[float]]
    draws_ms: list[list[list[float]]]
    context: dict[str, Any]
    relative_misfit: float


def read_cost_model_result(
    path: Path, *, evidence: Collection[Evidence] = ("measured",), tier: str | None = None
) -> Result:
    """Return the result of a fit, whose payload makes a cost model; raises ResultError that names the file."""
    result = read_typed_result(path, "cost_model", CostModelPayload, evidence=evidence, tier=tier)
    with naming(path):
        CostModel.from_dict(result.payload)
    return result


def read_cost_model(path: Path, *, tier: str | None = None) -> CostModel:
    """Return a measured cost model; raises as :func:`read_cost_model_result`."""
    return CostModel.from_dict(read_cost_model_result(path, tier=tier).payload)
