"""One model per draft position, each fitted on the adapters that say something about it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lora_spec.errors import PredictorError

Array = NDArray[np.float64]
Options = TypeVar("Options")
FitOne = Callable[[Array, Array, list[str]], dict[str, Any]]


def read_options(kind: type[Options], options: Mapping[str, Any], *, name: str) -> Options:
    """Return a variant's options as its dataclass; PredictorError that lists them where one is unknown."""
    try:
        return kind(**options)
    except TypeError as err:
        raise PredictorError(f"{name}: {err}; options are {', '.join(kind.__dataclass_fields__)}") from err


def fit_positions(x: Array, y: Array, sources: Sequence[str], fit_one: FitOne) -> list[dict[str, Any]]:
    """Return what ``fit_one(x, y, sources)`` gives for each column of ``y``, rows with NaN left out.

    Raises
    ------
    PredictorError
        No adapter reaches a position often enough.
    """
    positions = []
    for k in range(y.shape[1]):
        known = np.isfinite(y[:, k])
        if not known.any():
            raise PredictorError(
                f"draft position {k + 1} is reached too rarely by every one of {len(y)} adapters; "
                "lower the depth or measure more prompts"
            )
        rows = [source for source, is_known in zip(sources, known, strict=True) if is_known]
        positions.append({**fit_one(x[known], y[known, k], rows), "num_adapters": int(known.sum())})
    return positions


def source_folds(x: Array, sources: Sequence[str], num_folds: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return (training rows, held-out rows) of an inner cross-validation that splits no source."""
    from sklearn.model_selection import GroupKFold

    return list(GroupKFold(min(num_folds, len(set(sources)))).split(x, groups=list(sources)))
