"""Pad a drafter's vocabulary to its target's with rows that are never drafted; vLLM refuses pairs of two sizes."""

import argparse
import json
from pathlib import Path

from lora_spec.cli.output import say
from lora_spec.cli.script import existing_folder, run_script


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    from lora_spec.training.padded_vocabulary import pad_vocabulary  # needs torch

    say(json.dumps(pad_vocabulary(args.drafter, args.target, args.output), indent=1))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--target", type=existing_folder, required=True, help="model folder of the target")
parser.add_argument("--drafter", type=existing_folder, required=True, help="model folder of the drafter as published")
parser.add_argument("--output", type=Path, required=True, help="folder for the padded drafter")

if __name__ == "__main__":
    run_script(parser, main)
