"""How many drafts each step of each request would have accepted: drawn once, the same under every policy."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lora_spec.errors import ConfigError
from lora_spec.stress.simulator.settings import SimulatedAdapter
from lora_spec.traffic.schedule import ScheduledRequest

Path = NDArray[np.int8]

_BLOCK = 256


class AcceptanceLuck:
    """Paths of accepted drafts.

    One uniform number u per step: n drafts are accepted where a_(n+1) <= u < a_n. This is the chain of conditional
    acceptances r_k = a_k / a_(k-1), drawn at once, since the a_k fall. A policy that drafts to depth d sees min(n, d):
    two policies differ by their depths and by nothing else.

    Parameters
    ----------
    requests
        All of the run; ``index`` is their place. Blocks of them are drawn together, from a stream of their own.
    """

    def __init__(
        self, adapters: Mapping[str | None, SimulatedAdapter], requests: Sequence[ScheduledRequest], *, seed: int
    ) -> None:
        self._rates = {name: adapter.acceptance_rate_per_pos for name, adapter in adapters.items()}
        self._requests = requests
        self._seed = seed
        self._depth = max((len(rates) for rates in self._rates.values()), default=0)
        self._block_index = -1
        self._block: NDArray[np.int8] = np.zeros((0, 0), dtype=np.int8)

    def path(self, request: ScheduledRequest) -> Path:
        """Return accepted drafts step by step, shape ``(num_output_tokens - 1,)``; quick by rising index.

        Raises
        ------
        ConfigError
            The request names an adapter whose acceptance is not known.
        """
        block_index, place = divmod(request.index, _BLOCK)
        if block_index != self._block_index:
            self._block_index, self._block = block_index, self._draw(block_index)
        return self._block[place, : request.num_output_tokens - 1].copy()

    def _draw(self, block_index: int) -> NDArray[np.int8]:
        requests = self._requests[block_index * _BLOCK : (block_index + 1) * _BLOCK]
        if missing := {request.adapter for request in requests} - set(self._rates):
            raise ConfigError(f"traffic names adapter {missing.pop()!r}, whose acceptance is not known; give it")
        longest = max(request.num_output_tokens for request in requests)
        uniform = np.random.default_rng([self._seed, block_index]).random((len(requests), longest), dtype=np.float32)
        rates = np.zeros((len(requests), self._depth), dtype=np.float32)
        for row, request in zip(rates, requests, strict=True):
            found = self._rates[request.adapter]
            row[: len(found)] = found
        accepted = np.zeros(uniform.shape, dtype=np.int8)
        for k in range(self._depth):
            accepted += uniform < rates[:, k, None]
        return accepted
