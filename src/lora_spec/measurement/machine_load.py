"""How much CPU other processes took while something was timed (Linux). Knows nothing of engines."""

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from lora_spec.errors import MeasurementError

_STAT = Path("/proc/stat")


def _busy_seconds() -> float:
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
        return time.monotonic(), _busy_seconds() - (own.user + own.system + own.children_user + own.children_system)
