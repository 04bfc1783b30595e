"""Which engine of a fleet a request goes to, by name."""

import hashlib
from bisect import bisect
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from lora_spec.errors import ConfigError
from lora_spec.stress.simulator.engine import Engine
from lora_spec.traffic.schedule import ScheduledRequest

_POINTS_PER_ENGINE = 128


class Router(Protocol):
    """Chooses among engines that it was made for; requests come by arrival."""

    def choose(self, request: ScheduledRequest) -> int:
        """Return the engine's place."""
        ...


class RoundRobin:
    """Every engine in turn."""

    def __init__(self, engines: list[Engine]) -> None:
        self._num_engines = len(engines)
        self._next = -1

    def choose(self, request: ScheduledRequest) -> int:
        """Return the next engine."""
        self._next = (self._next + 1) % self._num_engines
        return self._next


class AdapterAffinity:
    """Consistent hashing: an adapter always goes to one engine, and few move when an engine comes or goes.

    Load is not looked at: a hot adapter may flood its engine. Requests without an adapter go to engines in turn.

    References: Karger et al. 1997, "Consistent hashing and random trees".
    """

    def __init__(self, engines: list[Engine]) -> None:
        points = [(_place(f"{i}/{k}"), i) for i in range(len(engines)) for k in range(_POINTS_PER_ENGINE)]
        self._places, self._engines = zip(*sorted(points), strict=True)
        self._in_turn = RoundRobin(engines)
        self._known: dict[str, int] = {}

    def choose(self, request: ScheduledRequest) -> int:
        """Return the engine whose point follows the adapter's on the ring."""
        if request.adapter is None:
            return self._in_turn.choose(request)
        if request.adapter not in self._known:
            after = bisect(self._places, _place(request.adapter)) % len(self._places)
            self._known[request.adapter] = self._engines[after]
        return self._known[request.adapter]


def _place(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


class LeastLoaded:
    """The engine with the fewest open requests, the first of equals."""

    def __init__(self, engines: list[Engine]) -> None:
        self._engines = engines
        self._changes: list[tuple[float, int]] = []
        self._due: dict[int, float] = {}

    def choose(self, request: ScheduledRequest) -> int:
        """Bring all engines up to the arrival and return the emptiest."""
        while self._changes and self._changes[0][0] <= request.arrival_s:
            due_s, place = heappop(self._changes)
            if self._due.get(place) == due_s:  # else the engine's steps have become others since
                self._engines[place].run_until(request.arrival_s)
                self._look_again(place, self._engines[place].next_change_s)
        num_open = [engine.num_open for engine in self._engines]
        chosen = num_open.index(min(num_open))
        # The request may shorten its steps: a look at the arrival finds when they end.
        self._look_again(chosen, request.arrival_s)
        return chosen

    def _look_again(self, place: int, due_s: float | None) -> None:
        self._due.pop(place, None)
        if due_s is not None:
            self._due[place] = due_s
            heappush(self._changes, (due_s, place))


ROUTERS: dict[str, Callable[[list[Engine]], Router]] = {
    "round_robin": RoundRobin,
    "adapter_affinity": AdapterAffinity,
    "least_loaded": LeastLoaded,
}


def make_router(name: str, engines: list[Engine]) -> Router:
    """Return the router of this name for these engines.

    Raises
    ------
    ConfigError
        There is none.
    """
    if name not in ROUTERS:
        raise ConfigError(f"no router {name!r}; there are {', '.join(ROUTERS)}")
    return ROUTERS[name](engines)
