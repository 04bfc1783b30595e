"""When a predicted verdict is committed: its doubt is within a limit that other sources chose and certified."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lora_spec.cost_model.model import CostModel
from lora_spec.errors import ConfigError
from lora_spec.gate.doubt import violation_probability
from lora_spec.gate.settings import GateSettings
from lora_spec.printing import printable
from lora_spec.records import AcceptanceEstimate

Reason = tuple[str, str]

# What a certificate is about: it holds for no other predictions, times, depths or load.
_PREDICTOR_KEYS = ("mode", "predictor", "training_sha256", "target_model", "draft_model")


@dataclass(frozen=True)
class Commitment:
    """The limit of the doubt, and what is certified of verdicts within it.

    Parameters
    ----------
    threshold
        Largest doubt at which a verdict is committed; None commits nothing.
    max_loss
        A committed verdict is wrong if its depth loses more than this share of goodput.
    batch_size
        The load that the certificate is about.
    num_committed, num_wrong
        Adapters whose sources did not choose the threshold: verdicts within it, and wrong ones among them.
    upper
        Upper bound of the share of wrong verdicts at ``confidence``; None where none was committed.
    max_risk
        Share of wrong verdicts up to which the limit was chosen. Where more of those that did not choose it were wrong,
        the limit is refuted, and nothing is committed within it.
    """

    threshold: float | None
    max_loss: float
    batch_size: float
    num_committed: int
    num_wrong: int
    upper: float | None
    confidence: float
    max_risk: float

    def reasons(
        self, estimate: AcceptanceEstimate, depth: int, cost_model: CostModel, *, settings: GateSettings
    ) -> tuple[list[Reason], list[Reason]]:
        """Return (doubts, remarks) on a depth at the certificate's load."""
        if says_nothing(estimate):
            message = "the interval of the acceptance is the whole possible range: whatever the limit, this is no basis"
            return [("R_NOTHING_KNOWN", message)], []
        if self.threshold is None:
            message = (
                "no limit of the doubt kept the wrong verdicts few enough on the adapters that were to choose it: no "
                "predicted verdict is committed"
            )
            return [("R_NOTHING_CERTIFIED", message)], []
        doubt = violation_probability(
            estimate, cost_model, depth, settings=settings, batch_size=self.batch_size, max_loss=self.max_loss
        )
        words = (
            f"K={depth} loses more than {self.max_loss:.0%} of goodput at batch size {self.batch_size:g} with "
            f"probability {doubt:.2f} by its intervals"
        )
        if self.is_refuted:
            message = f"the limit of the doubt, {self.threshold:.2f}, does not hold elsewhere: {self._certificate()}"
            return [("R_LIMIT_REFUTED", message)], []
        if doubt > self.threshold:
            return [("R_TOO_DOUBTFUL", f"{words}; verdicts are committed up to {self.threshold:.2f}")], []
        return [], [("R_WITHIN_CERTIFIED_DOUBT", f"{words}, within {self.threshold:.2f}; {self._certificate()}")]

    @property
    def is_refuted(self) -> bool:
        """Return whether more verdicts were wrong on the certifying half than the limit was to allow."""
        return self.num_wrong > self.max_risk * self.num_committed

    def _certificate(self) -> str:
        if self.upper is None:
            return "no adapter of a source that did not choose this limit was within it: nothing is certified"
        return (
            f"of {self.num_committed} such verdicts on sources that did not choose this limit {self.num_wrong} were "
            f"wrong: at most {self.upper:.0%} are, at {self.confidence:.0%} confidence"
        )


def says_nothing(estimate: AcceptanceEstimate) -> bool:
    """Return whether every acceptance length may be anything from 1 to K + 1, as where too few adapters were seen."""
    lengths = enumerate(estimate.acceptance_length_by_depth, start=1)
    return all(length.lower <= 1 and length.upper >= k + 1 for k, length in lengths)


def commitment_of(certification: Mapping[str, Any], *, source: str | None = None) -> Commitment:
    """Return the limit that a ``certification`` result gives.

    Parameters
    ----------
    source
        Of an adapter of the study itself: it gets the limit that the other half of the sources chose. None, or a source
        that is in neither half, gets the first.
    """
    directions = certification["directions"]
    fitting = [d for d in directions if source not in d["chosen_on"]] or directions
    certificate, rule = fitting[0]["certificate"], certification["rule"]
    return Commitment(
        threshold=certificate["threshold"],
        max_loss=rule["max_loss"],
        batch_size=certification["context"]["batch_size"],
        num_committed=certificate["adapters"]["num_committed"],
        num_wrong=certificate["adapters"]["num_wrong"],
        upper=certificate["adapters"]["upper"],
        confidence=certificate["confidence"],
        max_risk=rule["max_risk"],
    )


def certified_context(predictor: Mapping[str, Any], settings: GateSettings) -> dict[str, Any]:
    """Return what a certificate holds for, and for nothing else.

    Parameters
    ----------
    predictor
        The exported predictor, or the context of its predictions.
    """
    return {
        **{key: predictor[key] for key in _PREDICTOR_KEYS},
        "batch_size": settings.headline_batch_size,
        "rivals": list(settings.rivals),
    }


def check_certified(certification: Mapping[str, Any], predictor: Mapping[str, Any], settings: GateSettings) -> None:
    """Refuse a certificate of other predictions, another load or other depths.

    Raises
    ------
    ConfigError
        Something differs; the message names it.
    """
    certified, asked = certification["context"], certified_context(predictor, settings)
    if differing := [key for key, value in asked.items() if certified[key] != value]:
        key = differing[0]
        raise ConfigError(
            f"the certificate is for {key} {printable(certified[key])}, the verdict for {printable(asked[key])}; give "
            "the certificate that was made with this predictor and gate"
        )
