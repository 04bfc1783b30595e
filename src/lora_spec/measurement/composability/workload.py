"""What is sent in a cell: which adapters, which prompts, in which waves. Knows no engine option but the slots."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lora_spec.engines import AdapterRef
from lora_spec.engines.cell_spec import CellRequest, LoraRef, Wave

BASE = "base"


def text_id(adapter: str | None, index: int, *, is_held: bool) -> str:
    """Return the name of one text: who writes it, the prompt, whether under the grammar."""
    return f"{adapter or BASE}/{index}/{'grammar' if is_held else 'free'}"


@dataclass(frozen=True)
class Workload:
    """Messages and adapters that all cells share; ``adapters`` are in the order of the config."""

    messages: tuple[str, ...]
    adapters: tuple[AdapterRef, ...]
    num_slots: int
    max_tokens: int
    temperature: float
    pattern: str

    def served(self, lora: str) -> tuple[AdapterRef, ...]:
        """Return the adapters of a value of the axis ``lora``."""
        counts = {"off": 0, "one": 1, "more_than_slots": len(self.adapters)}
        return self.adapters[: counts.get(lora, self.num_slots)]

    def max_loras(self, lora: str) -> int:
        """Return the engine's slots: as many as adapters where they fit, 0 where LoRA is off."""
        return min(self.num_slots, len(self.served(lora)))

    def waves(self, axes: Mapping[str, Any]) -> tuple[Wave, ...]:
        """Return a cell's waves: the adapters share a batch, the base comes after them or, where so asked, beside.

        The base comes last, so that it meets full slots and the adapters' cached prefixes.
        """
        served = self.served(axes["lora"])
        how = {
            "is_held": axes["structured_output"],
            "temperature": 0.0 if axes["sampler"] == "greedy" else self.temperature,
        }
        if axes["lora"] == "beside_base":
            return (Wave(self.requests((*served, None), **how)),)
        alone = Wave(self.requests((None,), **how))
        return (Wave(self.requests(served, **how)), alone) if served else (alone,)

    def reference_waves(self, *, is_held: bool) -> tuple[Wave, ...]:
        """Return waves that write every text of every greedy cell, with the two best tokens of each position."""
        everyone: tuple[tuple[AdapterRef | None, ...], ...] = ((None,), self.adapters)
        return tuple(Wave(self.requests(writers, is_held=is_held, num_logprobs=2)) for writers in everyone)

    def requests(
        self,
        writers: tuple[AdapterRef | None, ...],
        *,
        is_held: bool = False,
        temperature: float = 0.0,
        num_logprobs: int | None = None,
    ) -> tuple[CellRequest, ...]:
        """Return one request per message and writer, the writers of a message next to each other."""
        return tuple(
            CellRequest(
                request_id=text_id(writer and writer.name, index, is_held=is_held),
                message=message,
                max_tokens=self.max_tokens,
                lora=writer and self.lora_ref(writer),
                temperature=temperature,
                pattern=self.pattern if is_held else None,
                num_logprobs=num_logprobs,
            )
            for index, message in enumerate(self.messages)
            for writer in writers
        )

    def lora_ref(self, adapter: AdapterRef) -> LoraRef:
        """Return an adapter under the id of its place."""
        return LoraRef(adapter.name, self.adapters.index(adapter) + 1, adapter.path)

    @property
    def folders(self) -> dict[str, str]:
        """Return adapter name to folder."""
        return {adapter.name: adapter.path for adapter in self.adapters}
