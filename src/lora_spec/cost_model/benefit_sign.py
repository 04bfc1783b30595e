"""Whether speculation pays: the foretold sign of E_K T_0 - T_K against the measured one."""

from collections.abc import Iterable
from dataclasses import dataclass

from lora_spec.errors import MeasurementError

SIGN_BAR = 0.95
"""Share of cases whose sign must be right."""
DEAD_BAND = 0.03
"""Measured gains or losses no larger than this count as neither."""


@dataclass(frozen=True)
class BenefitCase:
    """One acceptance length at one load: times with speculation and without it, foretold and measured, in ms."""

    acceptance_length: float
    predicted_on_ms: float
    predicted_off_ms: float
    measured_on_ms: float
    measured_off_ms: float

    @property
    def predicted_gain(self) -> float:
        """Return E_K T_0 / T_K - 1 as foretold."""
        return self.acceptance_length * self.predicted_off_ms / self.predicted_on_ms - 1

    @property
    def measured_gain(self) -> float:
        """Return E_K T_0 / T_K - 1 as measured."""
        return self.acceptance_length * self.measured_off_ms / self.measured_on_ms - 1


@dataclass(frozen=True)
class SignVerdict:
    """How many signs are right outside the dead band; the share and the answer are None where no case lies there."""

    num_cases: int
    num_in_dead_band: int
    num_right: int
    bar: float
    dead_band: float
    share_right: float | None
    is_met: bool | None


def judge_benefit_signs(cases: Iterable[BenefitCase]) -> SignVerdict:
    """Return the count of right signs among cases that measured a gain or a loss outside +-3 %, against 95 %."""
    cases = tuple(cases)
    if any(min(case.measured_on_ms, case.predicted_on_ms) <= 0 for case in cases):
        raise MeasurementError("a step time of no duration has no sign of benefit; measure the steps again")
    outside = [case for case in cases if abs(case.measured_gain) > DEAD_BAND]
    num_right = sum((case.predicted_gain > 0) == (case.measured_gain > 0) for case in outside)
    share = num_right / len(outside) if outside else None
    return SignVerdict(
        num_cases=len(outside),
        num_in_dead_band=len(cases) - len(outside),
        num_right=num_right,
        bar=SIGN_BAR,
        dead_band=DEAD_BAND,
        share_right=share,
        is_met=None if share is None else share >= SIGN_BAR,
    )
