"""The whole acceptance measurement of one adapter: live counts at the standing depth, replayed counts at all depths."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lora_spec.engines import AdapterRef, Engine, Replayer
from lora_spec.measurement.acceptance import Prompt, check_adapter_was_served, measure_arm
from lora_spec.measurement.trajectories import continue_past_end, replay_arm
from lora_spec.records import PromptRecord


@dataclass(frozen=True)
class PromptSet:
    """Prompts of one set with their cap; ``name`` is ``"own"`` or ``"common"``, ``sha256`` names the prompts."""

    name: str
    sha256: str
    prompts: tuple[Prompt, ...]
    max_tokens: int


@dataclass(frozen=True)
class CollectSettings:
    """How acceptance is counted: the standing depth live, every depth up to ``max_depth`` by replay."""

    num_speculative_tokens: int
    max_depth: int
    min_drafts: int
    num_warmup_prompts: int


class AcceptanceCollector:
    """Measures adapters one after another on one engine; the base is measured once per list of prompts."""

    def __init__(self, engine: Engine, replayer: Replayer, settings: CollectSettings) -> None:
        self._engine = engine
        self._replayer = replayer
        self._settings = settings
        self._base_arms: dict[str, tuple[list[PromptRecord], list[PromptRecord]]] = {}

    def collect(self, adapter: AdapterRef, prompt_sets: Sequence[PromptSet]) -> dict[str, Any]:
        """Return the payload of an acceptance record: live and replayed records of both arms on every set.

        Raises
        ------
        MeasurementError
            As :func:`~lora_spec.measurement.acceptance.measure_acceptance`.
        """
        live: list[PromptRecord] = []
        replay: list[PromptRecord] = []
        for prompt_set in prompt_sets:
            if prompt_set.sha256 not in self._base_arms:
                self._base_arms[prompt_set.sha256] = self._arm(prompt_set, None)
            for arm_live, arm_replay in (self._base_arms[prompt_set.sha256], self._arm(prompt_set, adapter)):
                live += arm_live
                replay += arm_replay
        check_adapter_was_served(live, adapter)
        return {
            "adapter": adapter.name,
            "num_speculative_tokens": self._settings.num_speculative_tokens,
            "max_depth": self._settings.max_depth,
            "live": [record.to_dict() for record in live],
            "replay": [record.to_dict() for record in replay],
        }

    def _arm(self, prompt_set: PromptSet, adapter: AdapterRef | None) -> tuple[list[PromptRecord], list[PromptRecord]]:
        live = measure_arm(
            self._engine,
            prompt_set.prompts,
            prompt_set=prompt_set.name,
            arm="adapted" if adapter else "base",
            adapter=adapter,
            num_speculative_tokens=self._settings.num_speculative_tokens,
            max_tokens=prompt_set.max_tokens,
            min_drafts=self._settings.min_drafts,
            num_warmup_prompts=self._settings.num_warmup_prompts,
        )
        trajectories = continue_past_end(
            self._engine,
            prompt_set.prompts,
            [(record.output_token_ids, record.finish_reason) for record in live],
            adapter=adapter,
            num_overrun_tokens=self._settings.max_depth,
        )
        replayed = replay_arm(
            self._replayer,
            trajectories,
            prompt_set=prompt_set.name,
            arm="adapted" if adapter else "base",
            adapter_name=adapter.name if adapter else None,
            depths=range(1, self._settings.max_depth + 1),
        )
        return live, replayed
