"""What of this processor decides how fast a step is and how bfloat16 rounds (x86 Linux): no name, no machine."""

from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")

FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_tile")
"""Instruction sets between which the engine's matrix products choose, from slow to quick."""


def cpu_features(cpuinfo: Path = _CPUINFO) -> list[str] | None:
    """Return those of :data:`FEATURES` that every core has, None where the machine does not say."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except (OSError, UnicodeError):
        return None
    cores = [set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")]
    return [name for name in FEATURES if all(name in flags for flags in cores)] if cores else None
