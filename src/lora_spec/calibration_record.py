"""What the calibration probe saw of one adapter: numbers per prompt and position, counts, and what they cost.

A target with the adapter writes a few short texts; the base, the adapted target and the drafter then read them. Raw
values are stored; sums and means over any number of prompts are derived. Knows nothing of files, engines or models.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lora_spec.errors import MeasurementError
from lora_spec.records import AcceptanceCounts, Role

DISTANCES = (
    "kl_base_nats",
    "js_base_nats",
    "kl_drafter_nats",
    "js_drafter_nats",
    "overlap_drafter",
    "overlap_base_drafter",
)
"""Between next-token distributions: Kullback-Leibler from the adapted target to the named reader and Jensen-Shannon,
both in nats; overlap = sum of min(p, q) = 1 - total variation, in [0, 1]."""

INFORMATION = (
    "entropy_adapted_nats",
    "entropy_base_nats",
    "entropy_drafter_nats",
    "surprisal_adapted_nats",
    "surprisal_base_nats",
    "surprisal_drafter_nats",
)
"""Of one reader, in nats: the entropy of its distribution, and -log of the probability that it gives to the text."""

FIRST_CHOICES = ("is_adapted_first", "is_base_first", "is_drafter_first", "is_drafter_base_first")
"""1 where the reader ranks the token of the text first; the last one: where drafter and base rank the same first."""

DIRECT_PROBE_PARTS = ("merge", "trajectories", "drafter_forward")
"""Parts of the cost that a direct probe alone would take; all parts together are the cost of every signal."""

SIGNALS = (*DISTANCES, *INFORMATION, *FIRST_CHOICES)

_MAX_BY_SIGNAL = {
    "js_base_nats": math.log(2),
    "js_drafter_nats": math.log(2),
    "overlap_drafter": 1.0,
    "overlap_base_drafter": 1.0,
    **dict.fromkeys(FIRST_CHOICES, 1.0),
}
_ROUNDING = 1e-4  # of sums over a vocabulary in float32


@dataclass(frozen=True)
class CalibrationPrompt:
    """One prompt: the adapted target's greedy text, what the readers saw along it, and the counts of the direct probe.

    Parameters
    ----------
    signals
        Values at every output token, by signal; position 0 is read from the prompt alone.
    counts_by_depth
        Entry K - 1: acceptance of the drafter along this text at depth K, as ``replay`` counts it.

    Raises
    ------
    MeasurementError
        Signals or counts are missing, of another length, or out of their range.
    """

    prompt_id: str
    num_prompt_tokens: int
    output_token_ids: tuple[int, ...]
    finish_reason: str
    signals: Mapping[str, tuple[float, ...]]
    counts_by_depth: tuple[AcceptanceCounts, ...]

    def __post_init__(self) -> None:
        if odd := sorted(set(self.signals) ^ set(SIGNALS)):
            raise MeasurementError(f"prompt {self.prompt_id}: signal {odd[0]!r} is missing or unknown; probe it again")
        for name, values in self.signals.items():
            self._check_signal(name, values)
        if [counts.num_speculative_tokens for counts in self.counts_by_depth] != list(range(1, self.max_depth + 1)):
            raise MeasurementError(
                f"prompt {self.prompt_id}: counts are not of depths 1 to {self.max_depth}; probe it again"
            )

    def _check_signal(self, name: str, values: tuple[float, ...]) -> None:
        if len(values) != self.num_positions or not self.num_positions:
            raise MeasurementError(
                f"prompt {self.prompt_id}: {len(values)} values of {name} for {self.num_positions} output tokens; "
                "probe it again"
            )
        most = _MAX_BY_SIGNAL.get(name, math.inf)
        bad = [value for value in values if not (-_ROUNDING <= value <= most + _ROUNDING and math.isfinite(value))]
        if bad:
            raise MeasurementError(
                f"prompt {self.prompt_id}: {name} is {bad[0]}, beyond 0 to {most:.3g}; the logits are damaged: probe "
                "the adapter again"
            )

    @property
    def num_positions(self) -> int:
        """Return the number of output tokens, each of which was read."""
        return len(self.output_token_ids)

    @property
    def max_depth(self) -> int:
        """Return the deepest K that was counted."""
        return len(self.counts_by_depth)

    def sum(self, signal: str) -> float:
        """Return the sum of a signal over the positions."""
        return math.fsum(self.signals[signal])


@dataclass(frozen=True)
class PartCost:
    """Time of one part of the probe: on the wall, and of all threads of this process on their cores."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class CalibrationRecord:
    """Everything that the probe of one adapter gave.

    Parameters
    ----------
    prompts
        In the frozen order: a probe of N prompts is the first N.
    cost_by_part
        Of all prompts together, by part: ``merge``, ``trajectories``, ``adapted_forward``, ``base_forward``,
        ``drafter_forward``, ``comparison``. Loading the models is no part: it is paid once for all adapters.
    other_cores
        Cores that other processes used meanwhile: wall times of a busy machine say little.
    """

    adapter: str
    adapter_sha256: str
    domain: str
    role: Role
    prompts: tuple[CalibrationPrompt, ...]
    cost_by_part: Mapping[str, PartCost]
    other_cores: float

    def __post_init__(self) -> None:
        ids = [prompt.prompt_id for prompt in self.prompts]
        if not ids or len(set(ids)) < len(ids) or len({prompt.max_depth for prompt in self.prompts}) > 1:
            raise MeasurementError(
                f"adapter {self.adapter!r}: no prompts, one twice, or of several depths; probe it again"
            )

    @property
    def max_depth(self) -> int:
        """Return the deepest K that was counted."""
        return self.prompts[0].max_depth

    def first(self, num_prompts: int) -> tuple[CalibrationPrompt, ...]:
        """Return the first N prompts.

        Raises
        ------
        MeasurementError
            The probe has fewer, or N is none.
        """
        if not 1 <= num_prompts <= len(self.prompts):
            raise MeasurementError(
                f"adapter {self.adapter!r}: {num_prompts} calibration prompts asked for, the record holds "
                f"{len(self.prompts)}; ask for 1 to {len(self.prompts)} or probe it on more"
            )
        return self.prompts[:num_prompts]

    def cost(self, parts: Collection[str]) -> PartCost:
        """Return the cost of some parts together, over all prompts of the record."""
        chosen = [self.cost_by_part[part] for part in parts]
        return PartCost(math.fsum(cost.wall_s for cost in chosen), math.fsum(cost.cpu_s for cost in chosen))

    def direct_probe(self, num_speculative_tokens: int, num_prompts: int) -> AcceptanceCounts:
        """Return the drafter's counts at depth K over the first N prompts: what a direct probe of N prompts measures.

        Raises
        ------
        MeasurementError
            The probe has fewer prompts, or does not go that deep.
        """
        if not 1 <= num_speculative_tokens <= self.max_depth:
            raise MeasurementError(
                f"adapter {self.adapter!r}: depth {num_speculative_tokens} was not counted, only 1 to {self.max_depth}"
            )
        counts = (prompt.counts_by_depth[num_speculative_tokens - 1] for prompt in self.first(num_prompts))
        return sum(counts, AcceptanceCounts.zero(num_speculative_tokens))
