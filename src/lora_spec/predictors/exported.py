"""The exported form of a predictor: what it must hold. Knows nothing of any variant."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lora_spec.errors import PredictorError

SUPPORTED_SCHEMA = "1"

_KEYS: dict[str, type | tuple[type, ...]] = {
    "predictor": str,
    "mode": str,
    "target_model": str,
    "draft_model": str,
    "standing_num_speculative_tokens": int,
    "max_depth": int,
    "level": float,
    "columns": list,
    "centre": list,
    "spread": list,
    "constant_columns": dict,
    "training_range": dict,
    "min_adapters": int,
    "range_margin": (int, float),
    "model": dict,
    "folds": list,
    "residuals": dict,
    "novelty": dict,
    "base_acceptance_rate_per_pos": list,
    "training_adapters": list,
    "num_adapters": int,
    "num_sources": int,
}


@contextmanager
def reading_export() -> Iterator[None]:
    """Turn what a damaged export trips over into an error that says so.

    Raises
    ------
    PredictorError
        The block met a value of a type, size or shape that no export has.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
        raise PredictorError(
            f"the exported predictor is damaged ({type(err).__name__}: {err}); export it again"
        ) from err


def check_exported(exported: Mapping[str, Any]) -> None:
    """Refuse an export that a prediction could not trust.

    Raises
    ------
    PredictorError
        A key is missing or of the wrong type, the schema is another one, or lengths disagree.
    """
    if not isinstance(exported, Mapping) or exported.get("schema_version") != SUPPORTED_SCHEMA:
        raise PredictorError(
            f"no exported predictor of schema {SUPPORTED_SCHEMA!r}: fit and export it again with this version"
        )
    for key, kind in _KEYS.items():
        if not isinstance(exported.get(key), kind) or isinstance(exported[key], bool):
            raise PredictorError(f"exported predictor: key {key!r} is missing or of the wrong type; export it again")
    with reading_export():
        _check_lengths(exported)
        _check_numbers(exported)


def _check_numbers(exported: Mapping[str, Any]) -> None:
    if not 0 < exported["level"] < 1 or not 1 <= exported["standing_num_speculative_tokens"] <= exported["max_depth"]:
        raise PredictorError("exported predictor: level or depths are impossible; export it again")
    if not all(_is_number(rate) and 0 <= rate <= 1 for rate in exported["base_acceptance_rate_per_pos"]):
        raise PredictorError("exported predictor: 'base_acceptance_rate_per_pos' holds no fractions; export it again")
    rates = exported["base_acceptance_rate_per_pos"]
    if list(rates) != sorted(rates, reverse=True):
        raise PredictorError("exported predictor: 'base_acceptance_rate_per_pos' rises with depth; export it again")
    neighbours = exported["novelty"].get("num_neighbours")
    if type(neighbours) is not int or neighbours < 1:
        raise PredictorError(f"exported predictor: novelty.num_neighbours {neighbours!r} counts none; export it again")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_lengths(exported: Mapping[str, Any]) -> None:
    num_columns, num_adapters, depth = len(exported["columns"]), exported["num_adapters"], exported["max_depth"]
    lengths = {
        "centre": (exported["centre"], num_columns),
        "spread": (exported["spread"], num_columns),
        "training_range": (exported["training_range"], num_columns),
        "training_adapters": (exported["training_adapters"], num_adapters),
        "novelty.points": (exported["novelty"].get("points", ()), num_adapters),
        "residuals.rate_logit": (exported["residuals"].get("rate_logit", ()), num_adapters),
        "residuals.length_logit": (exported["residuals"].get("length_logit", ()), num_adapters),
        "base_acceptance_rate_per_pos": (exported["base_acceptance_rate_per_pos"], depth),
        "folds": (exported["folds"], exported["num_sources"]),
    }
    for key, (items, expected) in lengths.items():
        if len(items) != expected:
            raise PredictorError(
                f"exported predictor: {key!r} has {len(items)} entries where {expected} belong: "
                "the file is damaged; export it again"
            )
