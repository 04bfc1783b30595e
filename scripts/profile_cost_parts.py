"""Time what a step is made of: contexts, prompts, mixed depths, adapter loads, engines without drafter or LoRA."""

import argparse

from lora_spec.cli.script import run_script
from lora_spec.cli.timings import time_and_write, timing_parser
from lora_spec.config.cost_parts import CostPartsConfig
from lora_spec.measurement.cost_parts import profile_cost_parts

BLOCK = "cost_parts"


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    time_and_write(args, profile_cost_parts, block=BLOCK, kind="cost_parts")


parser = timing_parser(__doc__, BLOCK, CostPartsConfig)

if __name__ == "__main__":
    run_script(parser, main)
