"""Patterns by the ``kind`` that ``traffic.yaml`` gives them."""

from collections.abc import Mapping
from typing import Any

from lora_spec.errors import ConfigError
from lora_spec.traffic.patterns.base import Pattern
from lora_spec.traffic.patterns.bursty import BurstyTraffic
from lora_spec.traffic.patterns.uniform import UniformTraffic
from lora_spec.traffic.patterns.zipf import ZipfTraffic

PATTERNS: dict[str, type[Pattern]] = {"uniform": UniformTraffic, "zipf": ZipfTraffic, "bursty": BurstyTraffic}


def make_pattern(settings: Mapping[str, Any]) -> Pattern:
    """Return the pattern of one entry of ``patterns``.

    Raises
    ------
    ConfigError
        No pattern is of this kind.
    """
    options = {key: value for key, value in settings.items() if key not in ("kind", "name")}
    try:
        return PATTERNS[settings["kind"]](**options)
    except KeyError as err:
        raise ConfigError(
            f"no traffic pattern is of kind {settings['kind']!r}; there are {', '.join(PATTERNS)}"
        ) from err
