"""Time engine steps T_K(B) with LoRA on, interleaved, alone on the machine."""

import argparse

from lora_spec.cli.script import run_script
from lora_spec.cli.timings import time_and_write, timing_parser
from lora_spec.config.phase1_measurement import StepTimeConfig
from lora_spec.measurement.cost_profile import profile_cost

BLOCK = "step_time"


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    time_and_write(args, profile_cost, block=BLOCK, kind="step_time_cells")


parser = timing_parser(__doc__, BLOCK, StepTimeConfig)

if __name__ == "__main__":
    run_script(parser, main)
