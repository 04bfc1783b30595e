"""The adapters that count where predictors are compared, and every score of a contender on their shared draws."""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from lora_spec.evaluation import (
    Resampled,
    SourceDraws,
    auroc,
    equal_source_weights,
    mean_absolute_error,
    rate_errors,
    source_mean,
    spearman,
)
from lora_spec.predictors.examples import TrainingExample
from lora_spec.predictors.held_out_comparison import Contender

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ScoredAdapters:
    """The truth of the adapters that count, row by row, and the draws that all scores share.

    Parameters
    ----------
    lengths, rates, mismatches
        Measured E_K at the standing depth, a_1 to a_max of shape ``(n, depth)``, and mismatch (NaN where undefined).
    is_net_loss
        The answer that AUROC is about; None where no AUROC may be given.
    """

    examples: tuple[TrainingExample, ...]
    lengths: Array
    rates: Array
    mismatches: Array
    is_net_loss: NDArray[np.bool_] | None
    draws: SourceDraws

    @property
    def names(self) -> list[str]:
        """Return the adapters' names."""
        return [example.adapter for example in self.examples]

    @property
    def sources(self) -> list[str]:
        """Return the adapters' sources."""
        return [example.source for example in self.examples]


def resample(contender: Contender, truth: ScoredAdapters) -> dict[str, Resampled]:
    """Return every score that is defined for a contender, on the shared draws."""
    guesses = [contender.guesses[name] for name in truth.names]
    lengths = np.array([guess.acceptance_length for guess in guesses])
    over = truth.draws.resample
    found = {"length_error": over(mean_absolute_error, lengths, truth.lengths)}
    if contender.orders_adapters:
        mismatches = np.array([guess.mismatch for guess in guesses], dtype=np.float64)
        found["spearman"] = over(spearman, lengths, truth.lengths)
        found["mismatch_spearman"] = over(_spearman_of_known, mismatches, truth.mismatches)
        if truth.is_net_loss is not None:
            found["auroc"] = over(auroc, -lengths, truth.is_net_loss)
    if not contender.is_null:
        errors = rate_errors([guess.acceptance_rate_per_pos for guess in guesses], truth.rates)
        found["calibration_error"] = over(source_mean, errors, equal_source_weights(truth.sources))
    return found


def _spearman_of_known(guessed: Array, measured: Array) -> float | None:
    known = np.isfinite(guessed) & np.isfinite(measured)
    return spearman(guessed[known], measured[known]) if known.sum() > 1 else None


def as_dict(value: Resampled | None, level: float) -> dict[str, float] | None:
    interval = None if value is None else value.interval(level)
    return None if interval is None else asdict(interval)
