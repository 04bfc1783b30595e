"""The acceptance measurement of one adapter, in two ways that give the same kind of records.

``LoraCollector`` serves the adapter as a user would: live counters at the standing depth, texts with LoRA on.
``MergedCollector`` merges it into the target and writes the texts without drafts, three times faster on a CPU. Both
replay the texts, which gives the counts at every depth.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np

from lora_spec.engines import AdapterRef, Engine, Replayer, Trajectory
from lora_spec.engines.base import MatchReplayer, steps_of_matches
from lora_spec.measurement.acceptance import (
    Prompt,
    check_adapter_was_served,
    check_num_drafts,
    measure_arm,
)
from lora_spec.measurement.trajectories import continue_past_end, record_of, record_trajectories, replay_arm
from lora_spec.records import PromptRecord, Role


@dataclass(frozen=True)
class PromptSet:
    """Prompts of one domain with their cap; ``name`` is ``"own"`` or ``"common"``, ``sha256`` that of the prompts."""

    name: str
    sha256: str
    prompts: tuple[Prompt, ...]
    max_tokens: int
    domain: str = ""
    role: Role = "evaluation"


@dataclass(frozen=True)
class CollectSettings:
    """How acceptance is counted: the standing depth live, every depth up to ``max_depth`` by replay."""

    num_speculative_tokens: int
    max_depth: int
    min_drafts: int
    num_warmup_prompts: int

    @classmethod
    def of_phase1(cls, phase1: Mapping[str, Any]) -> "CollectSettings":
        """Return the settings in ``phase1_measurement.yaml``."""
        return cls(**{key: phase1[key] for key in COUNTED_KEYS})


COUNTED_KEYS = tuple(field.name for field in fields(CollectSettings))
"""What counting reads of ``phase1_measurement.yaml`` beside its ``counting`` block."""


class Rescorer(Protocol):
    """The target as a reader: what it would have said at every position of a text (``TransformersReplayer``)."""

    def reload_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Read with other weights from now on."""

    def first_choices(self, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
        """Return the token ranked first at every output and overrun position."""


class Collector(ABC):
    """Measures adapters one after another on one engine; the base is measured once per list of prompts.

    Parameters
    ----------
    drafters
        Replayers by name; ``final`` is the one that the verdicts rest on.
    """

    def __init__(self, engine: Engine, drafters: Mapping[str, Replayer], settings: CollectSettings) -> None:
        self._engine = engine
        self._drafters = dict(drafters)
        self._settings = settings
        self._base_arms: dict[str, tuple[list[PromptRecord], list[Trajectory]]] = {}

    def collect(self, adapter: AdapterRef, prompt_sets: Sequence[PromptSet]) -> tuple[PromptRecord, ...]:
        """Return the records of both arms on every set, the base arm first.

        Raises
        ------
        MeasurementError
            As :func:`~lora_spec.measurement.acceptance.measure_acceptance`.
        """
        missing = [prompt_set for prompt_set in prompt_sets if prompt_set.sha256 not in self._base_arms]
        if missing:
            self._serve(None)
            self._base_arms |= {prompt_set.sha256: self._arm(prompt_set, None) for prompt_set in missing}
        self._serve(adapter)
        found: list[PromptRecord] = []
        for prompt_set in prompt_sets:
            base_records, base_texts = self._base_arms[prompt_set.sha256]
            records, _ = self._arm(prompt_set, adapter)
            # Domains with the same prompts share the base's records, each under its own name.
            base_records = self._named(prompt_set, base_records)
            found += [*base_records, *records, *self._on_base_texts(prompt_set, base_texts, adapter)]
        self._check(found, adapter)
        return tuple(found)

    def _check(self, found: Sequence[PromptRecord], adapter: AdapterRef) -> None:
        """Raise MeasurementError where the adapter was not served, or a set holds too few drafts in an arm.

        Drafts are counted over all domains of a set, as its rates are: an adapter of few words has few in each.
        """
        own = [record for record in found if record.context == "own"]
        check_adapter_was_served(own, adapter)
        depth = self._settings.num_speculative_tokens
        standing: dict[tuple[str, str], list[PromptRecord]] = {}
        for record in own:
            if (record.source, record.drafter, record.counts.num_speculative_tokens) == ("replay", "final", depth):
                standing.setdefault((record.prompt_set, record.arm), []).append(record)
        for (prompt_set, arm), records in standing.items():
            where = f"adapter {adapter.name}, prompt set {prompt_set!r}, {arm} arm"
            check_num_drafts(records, self._settings.min_drafts, where=where)

    @abstractmethod
    def _serve(self, adapter: AdapterRef | None) -> None:
        """Make the engine ready for one arm."""

    @abstractmethod
    def _arm(self, prompt_set: PromptSet, adapter: AdapterRef | None) -> tuple[list[PromptRecord], list[Trajectory]]:
        """Return the records of one arm, and its texts."""

    def _on_base_texts(
        self, prompt_set: PromptSet, base_texts: Sequence[Trajectory], adapter: AdapterRef
    ) -> list[PromptRecord]:
        """Return records of the adapted target judged along the base's texts; none unless a collector can."""
        return []

    def _replayed(
        self, prompt_set: PromptSet, texts: Sequence[Trajectory], adapter: AdapterRef | None
    ) -> list[PromptRecord]:
        depths = range(1, self._settings.max_depth + 1)
        found: list[PromptRecord] = []
        for name, replayer in self._drafters.items():
            records = replay_arm(
                replayer,
                texts,
                prompt_set=prompt_set.name,
                arm="adapted" if adapter else "base",
                adapter_name=adapter.name if adapter else None,
                depths=depths,
            )
            found += [replace(record, drafter=name) for record in records]
        return found

    def _named(self, of: PromptSet, records: Iterable[PromptRecord], **changes: Any) -> list[PromptRecord]:
        return [replace(record, domain=of.domain, role=of.role, **changes) for record in records]


class LoraCollector(Collector):
    """Counts with LoRA on: live counters at the standing depth, and replay of the served texts."""

    def _serve(self, adapter: AdapterRef | None) -> None:
        """Do nothing: every request names its adapter."""

    def _arm(self, prompt_set: PromptSet, adapter: AdapterRef | None) -> tuple[list[PromptRecord], list[Trajectory]]:
        live = measure_arm(
            self._engine,
            prompt_set.prompts,
            prompt_set=prompt_set.name,
            arm="adapted" if adapter else "base",
            adapter=adapter,
            num_speculative_tokens=self._settings.num_speculative_tokens,
            max_tokens=prompt_set.max_tokens,
            min_drafts=0,  # counted over all domains of the set, when both arms are there
            num_warmup_prompts=self._settings.num_warmup_prompts,
        )
        texts = continue_past_end(
            self._engine,
            prompt_set.prompts,
            [(record.output_token_ids, record.finish_reason) for record in live],
            adapter=adapter,
            num_overrun_tokens=self._settings.max_depth,
        )
        records = [*live, *self._replayed(prompt_set, texts, adapter)]
        return self._named(prompt_set, records, weights="lora"), texts


class MergedCollector(Collector):
    """Counts by replay alone, of texts that the target writes with the adapter merged into its weights.

    Parameters
    ----------
    weights_of
        Weights of the target with an adapter merged, None for the target as it is.
    rescorer
        The target as a reader, or None where the base's texts are not to be judged again by the adapted target.
    """

    def __init__(
        self,
        engine: Engine,
        drafters: Mapping[str, Replayer],
        settings: CollectSettings,
        *,
        weights_of: Callable[[AdapterRef | None], Iterable[tuple[str, Any]]],
        rescorer: Rescorer | None = None,
    ) -> None:
        super().__init__(engine, drafters, settings)
        self._weights_of = weights_of
        self._rescorer = rescorer
        self._drafted_on_base: dict[str, list[np.ndarray]] = {}

    def _serve(self, adapter: AdapterRef | None) -> None:
        self._engine.reload_weights(self._weights_of(adapter))
        if self._rescorer is not None and adapter is not None:
            self._rescorer.reload_weights(self._weights_of(adapter))

    def _arm(self, prompt_set: PromptSet, adapter: AdapterRef | None) -> tuple[list[PromptRecord], list[Trajectory]]:
        # The adapter is in the weights: a request that named it would be served twice.
        written = record_trajectories(
            self._engine,
            prompt_set.prompts,
            adapter=None,
            max_tokens=prompt_set.max_tokens,
            num_overrun_tokens=self._settings.max_depth,
        )
        texts = [replace(text, adapter=adapter) for text in written]
        return self._named(prompt_set, self._replayed(prompt_set, texts, adapter), weights="merged"), texts

    def _on_base_texts(
        self, prompt_set: PromptSet, base_texts: Sequence[Trajectory], adapter: AdapterRef
    ) -> list[PromptRecord]:
        """Judge the final drafter along the base's texts, position by position, by what the adapted target would say.

        This is what a measurement on the base's text sees; served traffic follows the adapted target's own text.
        """
        drafter = self._drafters["final"]
        if self._rescorer is None or not isinstance(drafter, MatchReplayer):
            return []
        # Neither the base's texts nor the drafter change from adapter to adapter.
        if prompt_set.sha256 not in self._drafted_on_base:
            self._drafted_on_base[prompt_set.sha256] = drafter.first_choices(base_texts)
        pairs = zip(
            base_texts,
            self._drafted_on_base[prompt_set.sha256],
            self._rescorer.first_choices(base_texts),
            strict=True,
        )
        records = [
            record_of(text, steps_of_matches(drafted == said, len(text.output_token_ids), depth))
            for text, drafted, said in pairs
            for depth in range(1, self._settings.max_depth + 1)
        ]
        changes = {"arm": "adapted", "adapter": adapter.name, "prompt_set": prompt_set.name, "context": "base"}
        return self._named(prompt_set, records, weights="merged", **changes)
