"""Made-up adapters, to try the predictors' path without any measurement. What comes out is no evidence of anything."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.features.columns import CheckpointMetaColumns, CheckpointOnlyColumns
from lora_spec.predictors.held_out import FittedAndHeldOut, fit_and_hold_out
from lora_spec.records import AcceptanceCounts, AcceptanceRecord, Arm, PromptRecord

Array = NDArray[np.float64]

NUM_SOURCES, PER_SOURCE = 12, 3
_MAX_DEPTH = 4
_NUM_DRAFTS = 400
_BASE_LOGIT = 0.5


@dataclass(frozen=True)
class MadeUpAdapters:
    """Features and counts of adapters that never were, and the source of each by name."""

    features: list[dict[str, Any]]
    records: list[AcceptanceRecord]
    sources: dict[str, str]


def make_up_adapters(*, seed: int, num_sources: int = NUM_SOURCES, per_source: int = PER_SOURCE) -> MadeUpAdapters:
    """Return adapters whose acceptance falls with the norm of their update, with noise."""
    rng = np.random.default_rng(seed)
    made = MadeUpAdapters([], [], {})
    for index in range(num_sources * per_source):
        name = f"smoke-{index:02d}"
        sha256 = hashlib.sha256(name.encode()).hexdigest()
        strength = rng.uniform(-1, 1)
        made.features.append(_features(name, sha256, strength, rng))
        made.records.append(_record(name, sha256, strength + 0.3 * rng.standard_normal(), rng))
        made.sources[name] = f"source-{index % num_sources:02d}"
    return made


def without_search(gate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of ``gate.yaml`` with the last value of each grid alone, since the search takes minutes."""
    return {**gate, "predictor": {key: _without_search(value) for key, value in gate["predictor"].items()}}


def smoke_fit(gate: Mapping[str, Any], *, seed: int) -> FittedAndHeldOut:
    """Fit and hold out made-up adapters.

    Parameters
    ----------
    gate
        The values of ``gate.yaml``; grids are not searched.
    """
    made = make_up_adapters(seed=seed)
    return fit_and_hold_out(
        made.features,
        made.records,
        gate=without_search(gate),
        sources=made.sources,
        target_model="made-up target",
        draft_model="made-up drafter",
    )


def _without_search(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: list(item)[-1:] if isinstance(item, list | tuple) else item for key, item in value.items()}


def _features(name: str, sha256: str, strength: float, rng: np.random.Generator) -> dict[str, Any]:
    """Return a features payload: columns of norms follow the strength, the others are noise."""
    groups = {}
    for kind in (CheckpointOnlyColumns, CheckpointMetaColumns):
        groups[kind.mode] = {
            column: float((strength if "fro" in column else 0.0) + 0.1 * rng.standard_normal()) for column in kind.names
        }
    adapter = {"name": name, "weights_sha256": sha256}
    return {"adapter": adapter, "status": "ok", "codes": [], "message": "", "columns": groups}


def _record(name: str, sha256: str, strength: float, rng: np.random.Generator) -> AcceptanceRecord:
    records = []
    arms: tuple[tuple[Arm, float], ...] = (("base", 0.0), ("adapted", strength))
    for arm, shift in arms:
        for depth in range(1, _MAX_DEPTH + 1):
            counts = _counts(depth, shift, rng)
            adapter = name if arm == "adapted" else None
            records.append(PromptRecord("made-up", "own", arm, adapter, counts, 1, (1,), "stop"))
    return AcceptanceRecord(name, sha256, tuple(records))


def _counts(depth: int, strength: float, rng: np.random.Generator) -> AcceptanceCounts:
    """Return counts of drafts whose k-th token is accepted, after the ones before it, with falling odds."""
    reached, accepted = _NUM_DRAFTS, []
    for k in range(depth):
        reached = int(rng.binomial(reached, 1 / (1 + np.exp(strength + 0.2 * k - _BASE_LOGIT))))
        accepted.append(reached)
    return AcceptanceCounts(_NUM_DRAFTS, _NUM_DRAFTS * depth, sum(accepted), tuple(accepted))
