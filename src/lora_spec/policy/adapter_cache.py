"""What vLLM's worker loads, told from the adapters of every batch: a mirror of its two least-recently-used caches.

vLLM counts no loads. Its worker keeps ``max_cpu_loras`` adapters in memory and ``max_loras`` in slots, and makes ready
what a batch needs before the step. The same rule over the same batches gives the same loads, but for the order of
adapters that were last used in the same step, which vLLM takes from a set. Standard library only.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable


class AdapterCache:
    """Counts loads; not an engine's cache, only what it must hold.

    Parameters
    ----------
    max_loras, max_cpu_loras
        Slots, and adapters in memory.
    preloaded
        Adapters that the server loads at its start, in this order.
    """

    def __init__(self, *, max_loras: int, max_cpu_loras: int, preloaded: Iterable[str] = ()) -> None:
        self._max_loras = max_loras
        self._max_cpu_loras = max_cpu_loras
        self._slots: OrderedDict[str, None] = OrderedDict()
        self._memory: OrderedDict[str, None] = OrderedDict()
        self._last: frozenset[str] = frozenset()
        for adapter in preloaded:
            self._use(adapter)

    def begin_step(self, adapters: Collection[str]) -> dict[str, str]:
        """Return which adapters of a step's batch had to be made ready: ``load`` from disk, ``place`` into a slot."""
        batch = frozenset(adapters)
        if batch == self._last:
            return {}
        self._last = batch
        return {adapter: kind for adapter in sorted(batch) if (kind := self._use(adapter)) is not None}

    def _use(self, adapter: str) -> str | None:
        kind = None if adapter in self._slots else "place" if adapter in self._memory else "load"
        self._memory[adapter] = None
        self._memory.move_to_end(adapter)
        if len(self._memory) > self._max_cpu_loras:
            oldest, _ = self._memory.popitem(last=False)
            self._slots.pop(oldest, None)
        self._slots[adapter] = None
        self._slots.move_to_end(adapter)
        if len(self._slots) > self._max_loras:
            self._slots.popitem(last=False)
        return kind
