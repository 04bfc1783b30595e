"""Put trained layers over the target's embeddings: a draft model that vLLM loads."""

import argparse
from pathlib import Path

from lora_spec.cli.script import json_flag, run_script
from lora_spec.training.drafter import assemble_drafter


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    assemble_drafter(args.target, args.layers, args.output, sha256=args.settings["sha256"])


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--target", type=Path, required=True, help="model folder of the target")
parser.add_argument("--layers", type=Path, required=True, help="safetensors file with the trained layers")
parser.add_argument("--settings", type=json_flag, required=True, help="the drafter's source, JSON")
parser.add_argument("--output", type=Path, required=True, help="model folder to make")

if __name__ == "__main__":
    run_script(parser, main)
