"""The ``cost_parts`` result: its payload, and reading it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from lora_spec.cost_cells import AdapterLoadCell, CellUse, CostCell, EngineArm
from lora_spec.records import Evidence
from lora_spec.typed import check_type, read_typed_result


class CostPartsPayload(TypedDict):
    """Timed cells, adapter loads, and the engines that they were timed on."""

    cells: list[CostCell]
    loads: list[AdapterLoadCell]
    engines: dict[EngineArm, dict[str, Any]]


@dataclass(frozen=True)
class CostPartsRecord:
    """A ``cost_parts`` result as read."""

    cells: tuple[CostCell, ...]
    loads: tuple[AdapterLoadCell, ...]
    engine: dict[str, Any]
    evidence: Evidence

    def cells_for(self, use: CellUse) -> tuple[CostCell, ...]:
        """Return the cells of one use."""
        return tuple(cell for cell in self.cells if cell.use == use)

    def loads_for(self, use: CellUse) -> tuple[AdapterLoadCell, ...]:
        """Return the loads of one use."""
        return tuple(cell for cell in self.loads if cell.use == use)


def read_cost_parts(path: Path, *, tier: str | None = None) -> CostPartsRecord:
    """Return the timed cells; ``engine`` is the one that is served. Raises ResultError that names the file."""
    result = read_typed_result(path, "cost_parts", CostPartsPayload, tier=tier)
    payload = check_type(CostPartsPayload, result.payload, str(path))
    return CostPartsRecord(
        tuple(payload["cells"]), tuple(payload["loads"]), payload["engines"].get("served", {}), result.evidence
    )
