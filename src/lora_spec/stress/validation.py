"""The simulator against real runs of the same schedule: how far off it is, and whether it orders policies alike."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lora_spec.errors import MeasurementError
from lora_spec.stress.summary import RunSummary

MAX_ERROR = 0.10


@dataclass(frozen=True)
class PolicyErrors:
    """One policy: simulated over real, minus 1."""

    output_throughput_error: float
    p50_tpot_error: float

    @property
    def is_within(self) -> bool:
        """Return whether both are at most ``MAX_ERROR`` off."""
        return max(abs(self.output_throughput_error), abs(self.p50_tpot_error)) <= MAX_ERROR


@dataclass(frozen=True)
class Validation:
    """All policies of one schedule.

    Parameters
    ----------
    kendall_tau_throughput, kendall_tau_tpot
        Kendall's tau-b between the simulated and the real order of the policies; None with fewer than two policies, or
        where all are equal.
    """

    policies: Mapping[str, PolicyErrors]
    kendall_tau_throughput: float | None
    kendall_tau_tpot: float | None

    @property
    def is_passed(self) -> bool:
        """Return whether every error is small and median TPOT orders the policies alike.

        Throughput orders nothing below saturation, where every policy serves what arrives: it is told, not asked.
        """
        is_ordered = self.kendall_tau_tpot is None or self.kendall_tau_tpot >= 1 - 1e-9
        return is_ordered and all(errors.is_within for errors in self.policies.values())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data with the verdict."""
        return {**asdict(self), "max_error": MAX_ERROR, "is_passed": self.is_passed}


def compare_with_real(simulated: Mapping[str, RunSummary], real: Mapping[str, RunSummary]) -> Validation:
    """Return how the simulated runs of one schedule differ from the real ones, by policy.

    Raises
    ------
    MeasurementError
        A policy is on one side only, other requests were counted, or a run has no TPOT.
    """
    if set(simulated) != set(real) or not real:
        raise MeasurementError(
            f"simulated are {', '.join(sorted(simulated)) or 'no policies'}, real {', '.join(sorted(real)) or 'none'}; "
            "both are needed of each"
        )
    for name, run in real.items():
        if run.num_requests != simulated[name].num_requests:
            raise MeasurementError(
                f"policy {name!r}: {run.num_requests} real and {simulated[name].num_requests} simulated requests; "
                "both sides must be of one schedule and warm-up"
            )
    throughput = {name: (simulated[name].output_throughput_tok_s, real[name].output_throughput_tok_s) for name in real}
    tpot = {name: (median_tpot(name, simulated[name]), median_tpot(name, real[name])) for name in real}
    return Validation(
        policies={name: PolicyErrors(_error(throughput[name]), _error(tpot[name])) for name in real},
        kendall_tau_throughput=_kendall(list(throughput.values())),
        kendall_tau_tpot=_kendall(list(tpot.values())),
    )


def median_tpot(name: str, run: RunSummary) -> float:
    """Return a run's median TPOT, ms; raises MeasurementError where it has none."""
    try:
        return run.times_ms["tpot_ms"]["p50"]
    except KeyError as err:
        raise MeasurementError(f"policy {name!r}: no request of two tokens ended, so there is no TPOT") from err


def _error(pair: tuple[float, float]) -> float:
    return pair[0] / pair[1] - 1


def _kendall(pairs: list[tuple[float, float]]) -> float | None:
    from scipy.stats import kendalltau

    ours, theirs = zip(*pairs, strict=True)
    if len(set(ours)) < 2 or len(set(theirs)) < 2:
        return None
    return float(kendalltau(ours, theirs).statistic)
