"""Requests that wait, by arrival; one whose adapter finds no place lets later ones pass."""

from collections import deque
from collections.abc import Iterable, Iterator

from lora_spec.stress.simulator.open_request import OpenRequest


class WaitingLine:
    """First come, first served, with a line of its own for every adapter so that skipping is cheap."""

    def __init__(self) -> None:
        self._all: deque[OpenRequest] = deque()
        self._by_adapter: dict[str | None, deque[OpenRequest]] = {}
        self._num_waiting = 0

    def __len__(self) -> int:
        return self._num_waiting

    def __iter__(self) -> Iterator[OpenRequest]:
        return (request for request in self._all if not request.is_admitted)

    def append(self, request: OpenRequest) -> None:
        """Put a request at the end."""
        self._num_waiting += 1
        self._all.append(request)
        self._by_adapter.setdefault(request.scheduled.adapter, deque()).append(request)

    def pop_first(self) -> OpenRequest:
        """Take the one that waits longest; there must be one."""
        while self._all[0].is_admitted:
            self._all.popleft()
        return self._take(self._all.popleft().scheduled.adapter)

    def pop_first_of(self, adapters: Iterable[str | None]) -> OpenRequest | None:
        """Take the one of these adapters that waits longest; None where none waits."""
        heads = [line[0] for adapter in adapters if (line := self._by_adapter.get(adapter))]
        if not heads:
            return None
        return self._take(min(heads, key=_arrival).scheduled.adapter)

    def _take(self, adapter: str | None) -> OpenRequest:
        line = self._by_adapter[adapter]
        request = line.popleft()
        if not line:
            del self._by_adapter[adapter]
        request.is_admitted = True
        self._num_waiting -= 1
        return request


def _arrival(request: OpenRequest) -> int:
    return request.scheduled.index
