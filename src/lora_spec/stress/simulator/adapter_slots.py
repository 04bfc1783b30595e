"""Adapters that lie ready for a batch and in main memory: the least recently used one goes first."""

from collections import OrderedDict
from collections.abc import Collection, Iterable

from lora_spec.cost_model.step_cost import StepCost
from lora_spec.stress.simulator.settings import ServerSettings


class AdapterSlots:
    """The two caches of vLLM's LoRA manager.

    Parameters
    ----------
    preloaded
        Adapters that are loaded before traffic, in this order: later ones push earlier ones out.
    """

    def __init__(self, settings: ServerSettings, cost: StepCost, preloaded: Iterable[str]) -> None:
        self._settings = settings
        self._cost = cost
        self._ready: OrderedDict[str, None] = OrderedDict()
        self._in_memory: OrderedDict[str, None] = OrderedDict()
        for adapter in preloaded:
            self._take_in(adapter, ())
        self.num_loads = 0
        self.num_cached_loads = 0

    def touch(self, adapter: str) -> None:
        """Note that a batch has used it until now."""
        self._ready.move_to_end(adapter)
        self._in_memory.move_to_end(adapter)

    def make_ready(self, adapter: str, lora_rank: int, in_use: Collection[str]) -> float:
        """Have an adapter ready for the next step and return how long the step waits for that, ms.

        Parameters
        ----------
        in_use
            Adapters of the batch, which keep their places; fewer than ``max_loras`` beside this one.
        """
        was_ready, was_in_memory = adapter in self._ready, adapter in self._in_memory
        self._take_in(adapter, in_use)
        if was_ready:
            return 0.0
        if was_in_memory:
            self.num_cached_loads += 1
            return self._settings.cached_load_share * self._cost.adapter_load_ms(lora_rank)
        self.num_loads += 1
        return self._cost.adapter_load_ms(lora_rank)

    def _take_in(self, adapter: str, in_use: Collection[str]) -> None:
        for cache, size in (
            (self._in_memory, self._settings.max_cpu_loras),
            (self._ready, self._settings.max_loras),
        ):
            if adapter not in cache and len(cache) >= size:
                oldest = next(name for name in cache if name not in in_use)
                del cache[oldest]
                if cache is self._in_memory:
                    self._ready.pop(oldest, None)
            cache[adapter] = None
            cache.move_to_end(adapter)
