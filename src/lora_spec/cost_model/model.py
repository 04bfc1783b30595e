"""Step time by depth and batch size, and what an acceptance is worth in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.errors import ConfigError, ResultError
from lora_spec.percentiles import percentile_interval
from lora_spec.records import AcceptanceEstimate, Interval

Array = NDArray[np.float64]
Reason = tuple[str, str]

SCHEMA_VERSION = "1"

# Times are the well-known side: their interval is taken wide so that the product's level is nearly the acceptance's.
DEFAULT_TIME_LEVEL = 0.99

# No step takes less than a nanosecond or more than a day; ratios of times within stay finite.
LEAST_MS, MOST_MS = 1e-6, 1e8
_MOST_MISFIT = 10.0


@dataclass(frozen=True)
class CostEstimate:
    """A number, its interval, the circumstances it holds in, and reasons to distrust it (``R_...``, message)."""

    interval: Interval
    context: Mapping[str, Any]
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, eq=False)
class CostModel:
    """T_K(B): at measured cells their estimates, and between them the line c0(K) + c1(K) * B.

    A step reads all weights once (c0) and works for every request (c1), so it is linear in the batch until an
    engine pads or saturates. The line is fitted to the cells by least squares, once for the estimates and once for
    every bootstrap draw. Draws are shared by all cells (trials are resampled together), so that a slow hour of the
    machine cancels in T_0 / T_K.

    Parameters
    ----------
    median_ms
        The cells' estimates (medians over trials, see :mod:`lora_spec.cost_model.fitting`), shape
        ``(num_depths, num_batch_sizes)``.
    draws_ms
        Bootstrap draws of the same, shape ``(num_draws, num_depths, num_batch_sizes)``.
    context
        What the times hold for: LoRA rank, context length, trials, engine.
    relative_misfit
        How far true times scatter about the line of parts, as a fraction (:mod:`lora_spec.cost_model.pulling`).
    """

    depths: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    median_ms: Array
    draws_ms: Array
    context: Mapping[str, Any]
    relative_misfit: float = 0.0

    def __post_init__(self) -> None:
        for name, values, least in (("depths", self.depths, 0), ("batch_sizes", self.batch_sizes, 1)):
            if not values or min(values) < least or list(values) != sorted(set(values)):
                raise ResultError(f"cost model: {name} {list(values)} must rise from {least} or more; fit it again")
        shape = (len(self.depths), len(self.batch_sizes))
        if self.median_ms.shape != shape or self.draws_ms.shape[1:] != shape or not len(self.draws_ms):
            raise ResultError(
                f"cost model: times of shape {self.median_ms.shape} and draws of {self.draws_ms.shape} do not fit "
                f"{shape[0]} depths x {shape[1]} batch sizes; fit the cost model again"
            )
        if not all(np.all((times > LEAST_MS) & (times < MOST_MS)) for times in (self.median_ms, self.draws_ms)):
            raise ResultError("cost model: a step time is not positive and finite; measure the step times again")
        if not 0 <= self.relative_misfit < _MOST_MISFIT:
            raise ResultError(f"cost model: relative_misfit {self.relative_misfit!r} is no fraction; fit it again")

    @cached_property
    def _lines(self) -> tuple[Array, Array]:
        """Return (c0, c1) for the medians, shape ``(2, K)``, and for the draws, shape ``(2, draws, K)``."""
        design = np.stack([np.ones(len(self.batch_sizes)), np.array(self.batch_sizes, dtype=np.float64)], axis=1)
        solve = np.linalg.pinv(design)
        return np.einsum("cb,kb->ck", solve, self.median_ms), np.einsum("cb,dkb->cdk", solve, self.draws_ms)

    def _depth_index(self, num_speculative_tokens: int) -> int:
        if num_speculative_tokens not in self.depths:
            raise ConfigError(
                f"the cost model holds no step times at K={num_speculative_tokens} (it holds K = "
                f"{', '.join(map(str, self.depths))}); measure that depth or take it out of candidate_depths"
            )
        return self.depths.index(num_speculative_tokens)

    def _times(self, num_speculative_tokens: int, batch_size: float) -> tuple[float, Array]:
        """Return the step time and its draws, from the cell itself where there is one."""
        k = self._depth_index(num_speculative_tokens)
        if batch_size in self.batch_sizes:
            b = self.batch_sizes.index(int(batch_size))
            return float(self.median_ms[k, b]), self.draws_ms[:, k, b]
        self._check_batch_size(batch_size)
        (c0, c1), (c0_draws, c1_draws) = self._lines
        median, draws = float(c0[k] + c1[k] * batch_size), c0_draws[:, k] + c1_draws[:, k] * batch_size
        if min(median, float(draws.min())) <= 0:
            raise ConfigError(
                f"batch size {batch_size}: the line through the step times at K={num_speculative_tokens} falls to "
                "zero there; measure step times nearer to that batch size"
            )
        return median, draws * self._scatter_draws[:, k]

    @cached_property
    def _scatter_draws(self) -> Array:
        """Return what a true time between cells may be over its line, shape ``(draws, K)``, the same at every call.

        The cells' own scatter about the lines says how large that is; two batch sizes have none, and the misfit of the
        line of parts stands for it.
        """
        num_free = len(self.depths) * (len(self.batch_sizes) - 2)
        scatter = self.relative_misfit
        if num_free > 0:
            c0, c1 = self._lines[0]
            residual = 1 - (c0[:, None] + c1[:, None] * np.array(self.batch_sizes)) / self.median_ms
            scatter = float(np.sqrt((residual**2).sum() / num_free))
        normals = np.random.default_rng(0).standard_normal((len(self.draws_ms), len(self.depths)))
        return np.exp(scatter * normals)

    def _check_batch_size(self, batch_size: float) -> None:
        if not batch_size >= 1:
            raise ConfigError(f"batch size {batch_size!r}: it must be at least 1")
        if len(self.batch_sizes) < 2:
            raise ConfigError(
                f"batch size {batch_size}: step times were measured at {self.batch_sizes[0]} only, and one point "
                "makes no line; measure a second batch size"
            )

    def load_reasons(self, batch_size: float) -> tuple[Reason, ...]:
        """Return why step times at this batch size deserve less trust than measured ones."""
        low, high = min(self.batch_sizes), max(self.batch_sizes)
        if low <= batch_size <= high:
            return ()
        message = f"batch size {batch_size:g} lies outside the measured {low} to {high}: step times are extrapolated"
        return (("R_LOAD_EXTRAPOLATED", message),)

    def fitted_ms(self, num_speculative_tokens: int, batch_size: float) -> float:
        """Return the line's value also where there is a cell, to compare the two."""
        k, (c0, c1) = self._depth_index(num_speculative_tokens), self._lines[0]
        self._check_batch_size(batch_size)
        return float(c0[k] + c1[k] * batch_size)

    def step_time_ms(
        self, num_speculative_tokens: int, batch_size: float, *, level: float = DEFAULT_TIME_LEVEL
    ) -> CostEstimate:
        """Return T_K(B) with its bootstrap interval."""
        median, draws = self._times(num_speculative_tokens, batch_size)
        interval = percentile_interval(median, draws, level)
        return self._estimate(interval, num_speculative_tokens, batch_size, unit="ms per step")

    def step_time_draws(self, num_speculative_tokens: int, batch_size: float, *, num_draws: int) -> tuple[float, Array]:
        """Return T_K(B) in ms and as many bootstrap draws as asked for, the same draws of trials at every depth."""
        median, draws = self._times(num_speculative_tokens, batch_size)
        return median, np.resize(draws, num_draws)

    def time_ratio_draws(self, num_speculative_tokens: int, batch_size: float) -> Array:
        """Return draws of T_0(B) / T_K(B), the same draws of trials at every depth; exactly 1 at depth 0."""
        return self._time_ratio(num_speculative_tokens, batch_size)[1]

    def time_ratio(
        self, num_speculative_tokens: int, batch_size: float, *, level: float = DEFAULT_TIME_LEVEL
    ) -> Interval:
        """Return T_0(B) / T_K(B), from paired draws."""
        return percentile_interval(*self._time_ratio(num_speculative_tokens, batch_size), level)

    def _time_ratio(self, num_speculative_tokens: int, batch_size: float) -> tuple[float, Array]:
        off, off_draws = self._times(0, batch_size)
        on, on_draws = self._times(num_speculative_tokens, batch_size)
        return off / on, off_draws / on_draws

    def speedup(
        self,
        acceptance: AcceptanceEstimate,
        num_speculative_tokens: int,
        batch_size: float,
        *,
        time_level: float = DEFAULT_TIME_LEVEL,
    ) -> CostEstimate:
        """Return E_K * T_0(B) / T_K(B): tokens per second with speculation over those without.

        The interval is by bounds: the product of the lower ends to the product of the upper ends. Whatever the
        dependence, it holds at level ``acceptance.level + time_level - 1`` at least, which is the level stated.
        """
        length = acceptance.acceptance_length(num_speculative_tokens)
        interval = _product(length, self.time_ratio(num_speculative_tokens, batch_size, level=time_level))
        return self._estimate(interval, num_speculative_tokens, batch_size, unit="ratio to speculation off")

    def goodput(
        self,
        acceptance: AcceptanceEstimate,
        num_speculative_tokens: int,
        batch_size: float,
        *,
        time_level: float = DEFAULT_TIME_LEVEL,
    ) -> CostEstimate:
        """Return B * E_K / T_K(B) in tokens per second, interval by bounds as in :meth:`speedup`."""
        median, draws = self._times(num_speculative_tokens, batch_size)
        per_second = percentile_interval(1e3 * batch_size / median, 1e3 * batch_size / draws, time_level)
        interval = _product(acceptance.acceptance_length(num_speculative_tokens), per_second)
        return self._estimate(interval, num_speculative_tokens, batch_size, unit="tokens per second")

    def break_even_acceptance_length(
        self, num_speculative_tokens: int, batch_size: float, *, level: float = DEFAULT_TIME_LEVEL
    ) -> CostEstimate:
        """Return T_K(B) / T_0(B): the E_K at which speculation neither gains nor loses.

        Above K + 1 no acceptance pays; below 1 any does.
        """
        ratio = self.time_ratio(num_speculative_tokens, batch_size, level=level)
        interval = Interval(1 / ratio.estimate, 1 / ratio.upper, 1 / ratio.lower, level)
        return self._estimate(interval, num_speculative_tokens, batch_size, unit="tokens per step")

    def _estimate(
        self, interval: Interval, num_speculative_tokens: int, batch_size: float, *, unit: str
    ) -> CostEstimate:
        context = {
            **self.context,
            "num_speculative_tokens": num_speculative_tokens,
            "batch_size": batch_size,
            "unit": unit,
        }
        return CostEstimate(interval, context, self.load_reasons(batch_size))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "schema_version": SCHEMA_VERSION,
            "depths": list(self.depths),
            "batch_sizes": list(self.batch_sizes),
            "median_ms": self.median_ms.tolist(),
            "draws_ms": self.draws_ms.tolist(),
            "context": dict(self.context),
            "relative_misfit": self.relative_misfit,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "CostModel":
        """Rebuild from :meth:`to_dict` output read back from JSON.

        Raises
        ------
        ResultError
            It is no cost model of this schema, or damaged.
        """
        if not isinstance(data, Mapping) or data.get("schema_version") != SCHEMA_VERSION:
            raise ResultError(f"no cost model of schema {SCHEMA_VERSION!r}; fit the cost model again")
        try:
            return cls(
                depths=_integers(data["depths"]),
                batch_sizes=_integers(data["batch_sizes"]),
                median_ms=np.array(data["median_ms"], dtype=np.float64),
                draws_ms=np.array(data["draws_ms"], dtype=np.float64),
                context=dict(data["context"]),
                relative_misfit=float(data["relative_misfit"]),
            )
        except (ArithmeticError, LookupError, TypeError, ValueError) as err:
            raise ResultError(f"cost model: damaged ({type(err).__name__}: {err}); fit it again") from err


def _integers(values: Sequence[Any]) -> tuple[int, ...]:
    if not all(type(value) is int for value in values):
        raise TypeError(f"{values!r} holds something else than whole numbers")
    return tuple(values)


def _product(left: Interval, right: Interval) -> Interval:
    """Return the product of two positive quantities by bounds; the level is the union bound's."""
    return Interval(
        left.estimate * right.estimate,
        left.lower * right.lower,
        left.upper * right.upper,
        max(0.0, round(left.level + right.level - 1, 9)),
    )
