"""Seconds by part of a job: on the wall, and of all threads of this process on their cores."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from lora_spec.calibration_record import PartCost


class Stopwatch:
    """Adds up the time spent in named parts; a part may be entered many times, parts must not be nested."""

    def __init__(self) -> None:
        self._spent: dict[str, PartCost] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the time of a ``with`` block to a part, also where the block fails."""
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            before = self._spent.get(name, PartCost(0.0, 0.0))
            self._spent[name] = PartCost(
                before.wall_s + time.perf_counter() - wall, before.cpu_s + time.process_time() - cpu
            )

    def cost_by_part(self) -> dict[str, PartCost]:
        """Return the seconds so far by part, in the order in which parts were first entered."""
        return dict(self._spent)
