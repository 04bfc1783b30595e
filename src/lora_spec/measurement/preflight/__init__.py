"""Whether a machine can run a tier at all, asked in minutes before anything that takes hours."""

from lora_spec.measurement.preflight.checks import CHECKS, find_problems
from lora_spec.measurement.preflight.machine import Machine, look_around

__all__ = ["CHECKS", "Machine", "find_problems", "look_around"]
