"""Turn engine runs into checked acceptance and step-time records and effects. Knows no feature of a checkpoint."""

from lora_spec.measurement.acceptance import Prompt, measure_acceptance, measure_arm
from lora_spec.measurement.effect import (
    estimate_acceptance,
    estimate_acceptance_length_difference,
    estimate_mismatch,
)
from lora_spec.measurement.lock import machine_lock
from lora_spec.measurement.machine_load import OtherCpuMeter
from lora_spec.measurement.step_times import measure_step_times
from lora_spec.measurement.trajectories import record_trajectories, replay_acceptance, replay_arm

__all__ = [
    "OtherCpuMeter",
    "Prompt",
    "estimate_acceptance",
    "estimate_acceptance_length_difference",
    "estimate_mismatch",
    "machine_lock",
    "measure_acceptance",
    "measure_arm",
    "measure_step_times",
    "record_trajectories",
    "replay_acceptance",
    "replay_arm",
]
