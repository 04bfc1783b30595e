"""The nouns that pass between rooms: frozen, with raw counts stored and rates derived.

Knows nothing of files, engines or models. Fractions lie in [0, 1]; times end in ``_ms`` or ``_s``.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from lora_spec.errors import MeasurementError, ResultError

Evidence = Literal["measured", "contract-only", "synthetic-smoke"]
Action = Literal["green", "amber", "red", "abstain"]
DrafterAction = Literal["keep", "disable", "adapt"]
Mode = Literal["checkpoint_only", "checkpoint_base", "checkpoint_meta", "checkpoint_calib", "measured"]
Arm = Literal["base", "adapted"]
Role = Literal["fit", "calibration", "evaluation"]
Source = Literal["live", "replay"]
Weights = Literal["lora", "merged"]
Context = Literal["own", "base"]

_ROUNDING = 1e-9  # numbers that are equal by their meaning may differ by this once computed


@dataclass(frozen=True)
class AcceptanceCounts:
    """vLLM's speculative-decoding counters over one window, as deltas.

    ``num_accepted_tokens_per_pos[k]`` counts the drafts whose first ``k + 1`` tokens were all accepted.
    """

    num_drafts: int
    num_draft_tokens: int
    num_accepted_tokens: int
    num_accepted_tokens_per_pos: tuple[int, ...]

    def __post_init__(self) -> None:
        per_pos = self.num_accepted_tokens_per_pos
        if sum(per_pos) != self.num_accepted_tokens:
            raise MeasurementError(
                f"accepted tokens per position {per_pos} do not add up to num_accepted_tokens "
                f"{self.num_accepted_tokens}: the counters were read in different windows; read them again together"
            )
        bounds = (self.num_drafts, *per_pos)
        if any(later > earlier for earlier, later in zip(bounds, per_pos, strict=False)) or min(bounds) < 0:
            raise MeasurementError(
                f"counts {bounds} (drafts, then accepted per position) must fall and stay non-negative: "
                "a counter was reset inside the window; discard it and measure again"
            )
        if self.num_accepted_tokens > self.num_draft_tokens:
            raise MeasurementError(
                f"{self.num_accepted_tokens} accepted of {self.num_draft_tokens} drafted tokens is impossible: "
                "the window holds counts of another engine; measure again"
            )

    @property
    def num_speculative_tokens(self) -> int:
        """Return K, the deepest drafted position."""
        return len(self.num_accepted_tokens_per_pos)

    @property
    def acceptance_rate(self) -> float | None:
        """Return accepted / drafted tokens, or None where nothing was drafted."""
        return self.num_accepted_tokens / self.num_draft_tokens if self.num_draft_tokens else None

    @property
    def acceptance_rate_per_pos(self) -> tuple[float, ...] | None:
        """Return a_k = P(first k drafted tokens all accepted), marginal, for k = 1..K; None without drafts."""
        if not self.num_drafts:
            return None
        return tuple(count / self.num_drafts for count in self.num_accepted_tokens_per_pos)

    @property
    def acceptance_length(self) -> float | None:
        """Return E_K = 1 + sum_k a_k, the tokens gained per draft with the bonus token; None without drafts."""
        return 1 + self.num_accepted_tokens / self.num_drafts if self.num_drafts else None

    def __add__(self, other: "AcceptanceCounts") -> "AcceptanceCounts":
        if self.num_speculative_tokens != other.num_speculative_tokens:
            raise MeasurementError(
                f"counts taken at K={self.num_speculative_tokens} and K={other.num_speculative_tokens} cannot be added"
            )
        pairs = zip(self.num_accepted_tokens_per_pos, other.num_accepted_tokens_per_pos, strict=True)
        return AcceptanceCounts(
            self.num_drafts + other.num_drafts,
            self.num_draft_tokens + other.num_draft_tokens,
            self.num_accepted_tokens + other.num_accepted_tokens,
            tuple(a + b for a, b in pairs),
        )

    @classmethod
    def zero(cls, num_speculative_tokens: int) -> "AcceptanceCounts":
        """Return the neutral element of addition at depth K."""
        return cls(0, 0, 0, (0,) * num_speculative_tokens)

    @classmethod
    def from_accepted_per_step(cls, num_accepted: Sequence[int], num_speculative_tokens: int) -> "AcceptanceCounts":
        """Count steps that each drafted K tokens and accepted ``num_accepted[i]`` of them."""
        per_pos = tuple(sum(n > k for n in num_accepted) for k in range(num_speculative_tokens))
        return cls(len(num_accepted), len(num_accepted) * num_speculative_tokens, sum(per_pos), per_pos)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "AcceptanceCounts":
        """Rebuild from :func:`dataclasses.asdict` output read back from JSON."""
        return cls(**{**data, "num_accepted_tokens_per_pos": tuple(data["num_accepted_tokens_per_pos"])})


@dataclass(frozen=True)
class PromptRecord:
    """What one prompt gave in one arm under one drafter and depth: raw counts and the text they belong to.

    Parameters
    ----------
    source
        ``live``: a speculating engine's counters; ``replay``: the same arithmetic over a recorded text.
    weights
        How the adapter was served when the text was written: ``lora`` beside the base, or ``merged`` into it.
    drafter
        ``final``, ``early`` (its early checkpoint) or ``ngram``.
    context
        Whose text the drafts were judged on: the arm's ``own``, or the ``base`` arm's text, re-scored.
    e2el_ms
        Arrival to last token, in ms; None where no engine ran for this record alone.
    """

    prompt_id: str
    prompt_set: str
    arm: Arm
    adapter: str | None
    counts: AcceptanceCounts
    num_prompt_tokens: int
    output_token_ids: tuple[int, ...]
    finish_reason: str
    domain: str = ""
    role: Role = "evaluation"
    source: Source = "replay"
    weights: Weights = "lora"
    drafter: str = "final"
    context: Context = "own"
    num_steps: int | None = None
    e2el_ms: float | None = None


@dataclass(frozen=True)
class AcceptanceRecord:
    """Everything that was counted for one adapter, both arms, on every prompt set."""

    adapter: str
    adapter_sha256: str
    records: tuple[PromptRecord, ...]

    def chosen(
        self, source: Source = "replay", *, drafter: str = "final", context: Context = "own"
    ) -> tuple[PromptRecord, ...]:
        """Return the records of one source, drafter and context."""
        return tuple(r for r in self.records if (r.source, r.drafter, r.context) == (source, drafter, context))

    @cached_property
    def max_depth(self) -> int:
        """Return the deepest K that was replayed, 0 if none was."""
        return max((record.counts.num_speculative_tokens for record in self.chosen()), default=0)


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval at a stated level, for example 0.9."""

    estimate: float
    lower: float
    upper: float
    level: float

    def __post_init__(self) -> None:
        slack = _ROUNDING * max(1.0, abs(self.estimate))
        is_ordered = self.lower - slack <= self.estimate <= self.upper + slack
        if not (is_ordered and math.isfinite(self.lower) and math.isfinite(self.upper) and 0 <= self.level <= 1):
            raise MeasurementError(
                f"interval {self.lower} to {self.upper} around {self.estimate} at level {self.level} is impossible: "
                "bounds must be finite and hold the estimate; compute it again"
            )

    @classmethod
    def around(cls, estimate: float, lower: float, upper: float, level: float) -> "Interval":
        """Return the interval, stretched where resampling left the estimate outside."""
        return cls(estimate, min(lower, estimate), max(upper, estimate), level)


@dataclass(frozen=True)
class AcceptanceEstimate:
    """The acceptance vector a_1..a_K with its interval, measured or predicted.

    ``lower`` and ``upper`` bound each a_k; ``acceptance_length_interval`` bounds E_K itself, since the bounds
    of a sum are not the sum of bounds. ``is_out_of_distribution`` and ``reasons`` are set by a predictor.
    """

    mode: Mode
    acceptance_rate_per_pos: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    level: float
    acceptance_length_by_depth: tuple[Interval, ...]
    is_out_of_distribution: bool = False
    reasons: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        bounds = (self.lower, self.acceptance_rate_per_pos, self.upper)
        if not self.acceptance_rate_per_pos or {len(part) for part in bounds} != {len(self.acceptance_length_by_depth)}:
            raise MeasurementError("acceptance rates, bounds and lengths are not of one depth; estimate them again")
        for rates in bounds:
            if any(later > rate + _ROUNDING for rate, later in zip((1.0, *rates), (*rates, 0.0), strict=True)):
                raise MeasurementError(f"acceptance rates {rates} must be fractions that fall; estimate them again")
        if any(not low - _ROUNDING <= rate <= high + _ROUNDING for low, rate, high in zip(*bounds, strict=True)):
            raise MeasurementError("an acceptance rate lies outside its bounds; estimate the acceptance again")
        for depth, length in enumerate(self.acceptance_length_by_depth, start=1):
            if length.lower < 1 - _ROUNDING or length.upper > depth + 1 + _ROUNDING:
                raise MeasurementError(
                    f"acceptance length {length.lower} to {length.upper} at K={depth} is impossible: it lies within "
                    f"1 to {depth + 1}; estimate it again"
                )

    def acceptance_length(self, num_speculative_tokens: int) -> Interval:
        """Return E_K with its interval for K = 0..max depth; E_0 is exactly 1.

        Raises
        ------
        ResultError
            It is not known at this depth.
        """
        deepest = len(self.acceptance_length_by_depth)
        if not 0 <= num_speculative_tokens <= deepest:
            raise ResultError(
                f"an acceptance length is asked for at K={num_speculative_tokens} and known to K={deepest}; measure or "
                "predict deeper, or ask for less"
            )
        if num_speculative_tokens == 0:
            return Interval(1.0, 1.0, 1.0, self.level)
        return self.acceptance_length_by_depth[num_speculative_tokens - 1]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "AcceptanceEstimate":
        """Rebuild from :meth:`to_dict` output read back from JSON."""
        rates = {key: tuple(data[key]) for key in ("acceptance_rate_per_pos", "lower", "upper")}
        lengths = tuple(Interval(**interval) for interval in data["acceptance_length_by_depth"])
        reasons = tuple((code, message) for code, message in data["reasons"])
        return cls(**{**data, **rates, "acceptance_length_by_depth": lengths, "reasons": reasons})


@dataclass(frozen=True)
class Verdict:
    """What to do with one adapter, and why: section 6 of the design."""

    adapter: dict[str, Any]
    mode: Mode
    action: Action
    num_speculative_tokens: int | None
    drafter: DrafterAction
    acceptance_length: Interval | None
    speedup: Interval | None
    speedup_context: dict[str, Any]
    reasons: tuple[tuple[str, str], ...]
    correction: str | None = None
    predictor_sha256: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    schema_version: str = "1"

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as the JSON object that users and engines read."""
        data = asdict(self)
        context = data.pop("speedup_context")
        if data["speedup"] is not None:
            data["speedup"]["context"] = context
        data["reasons"] = [{"code": code, "message": message} for code, message in self.reasons]
        return data
