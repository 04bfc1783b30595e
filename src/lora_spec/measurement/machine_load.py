"""How much CPU other processes took while something was timed (Linux). Knows nothing of engines."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from lora_spec.errors import MeasurementError
from lora_spec.measurement.progress import tell

_STAT = Path("/proc/stat")
_POLL_S = 5.0


class CpuMeter(Protocol):
    """A ``with`` block after which ``other_cores`` says how many cores others used."""

    other_cores: float

    def __enter__(self) -> "CpuMeter": ...

    def __exit__(self, *error: object) -> None: ...


def busy_seconds() -> float:
    """Return CPU seconds used by all processes of the machine, and stolen by its host, since the start."""
    try:
        fields = _STAT.read_text().split("\n", 1)[0].split()[1:]
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in fields[:8])
    except (OSError, ValueError) as err:
        raise MeasurementError(f"{_STAT} cannot be read ({err}): step times need a Linux machine that says") from err
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class OtherCpuMeter:
    """CPU that others used during a ``with`` block, in cores.

    ``other_cores`` is set on leaving: (CPU seconds of the machine - those of this process and its ended children) /
    wall seconds. The load average is too slow for windows of seconds.
    """

    other_cores: float

    def __enter__(self) -> Self:
        self._before = self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        wall, other = (late - early for late, early in zip(self._read(), self._before, strict=True))
        self.other_cores = max(0.0, other / wall)

    def _read(self) -> tuple[float, float]:
        own = os.times()
        return time.monotonic(), busy_seconds() - (own.user + own.system + own.children_user + own.children_system)


class Patience:
    """Waits for a quiet machine, so that a browser opened in the middle costs minutes and not the run.

    Parameters
    ----------
    max_other_cores
        Cores that other processes may use on a quiet machine.
    max_wait_s
        Seconds of waiting allowed over the whole life of this object.
    """

    def __init__(
        self,
        max_other_cores: float,
        max_wait_s: float,
        *,
        meter: Callable[[], CpuMeter] = OtherCpuMeter,
        sleep: Callable[[float], None] = time.sleep,
        notify: Callable[[str], object] = tell,
    ) -> None:
        self.max_other_cores = max_other_cores
        self._max_wait_s, self._left_s = max_wait_s, max_wait_s
        self._meter, self._sleep, self._notify = meter, sleep, notify

    def wait(self, other_cores: float, *, doing: str) -> None:
        """Return once others use little; ``other_cores`` is what they used when it was noticed.

        Raises
        ------
        MeasurementError
            The machine stayed busy for longer than allowed.
        """
        self._notify(f"{doing}: waiting, other processes use {other_cores:.2f} cores")
        while True:
            if self._left_s <= 0:
                raise MeasurementError(
                    f"{doing}: other processes used {other_cores:.2f} cores, allowed are {self.max_other_cores}, after "
                    f"{self._max_wait_s:.0f} s of waiting; stop them and measure again"
                )
            with self._meter() as used:
                self._sleep(_POLL_S)
            self._left_s -= _POLL_S
            other_cores = used.other_cores
            if other_cores <= self.max_other_cores:
                return
