"""Splits in which no source stands on both sides, and predictions made across them."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lora_spec.errors import ConfigError

Example = TypeVar("Example")
Fitted = TypeVar("Fitted")
Predicted = TypeVar("Predicted")
Index = NDArray[np.intp]


def leave_source_out(sources: Sequence[str]) -> Iterator[tuple[str, Index, Index]]:
    """Yield (source, training rows, test rows), each source once, in sorted order.

    Raises
    ------
    ConfigError
        There is one source only: nothing can be held out.
    """
    names = np.array(sources)
    if len(set(sources)) < 2:
        raise ConfigError(f"{len(sources)} adapters of one source cannot be split by source; add another source")
    for source in sorted(set(sources)):
        yield source, np.flatnonzero(names != source), np.flatnonzero(names == source)


def predict_across(
    examples: Sequence[Example],
    sources: Sequence[str],
    *,
    fit: Callable[[Sequence[Example]], Fitted],
    predict: Callable[[Fitted, Example], Predicted],
) -> list[Predicted]:
    """Predict every example by a fit that saw nothing of its source; in the order of ``examples``."""
    predictions: dict[int, Predicted] = {}
    for _, inside, outside in leave_source_out(sources):
        fitted = fit([examples[i] for i in inside])
        predictions.update({int(i): predict(fitted, examples[i]) for i in outside})
    return [predictions[i] for i in range(len(examples))]
