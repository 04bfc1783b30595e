"""Put trained layers over the target's embeddings: a draft model that vLLM loads."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, existing_folder, run_script
from lora_spec.config.models import ShippedLayersSource


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    from lora_spec.training.drafter import assemble_drafter  # needs torch

    assemble_drafter(args.target, args.layers, args.output, sha256=args.settings["sha256"])


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--target", type=existing_folder, required=True, help="model folder of the target")
parser.add_argument("--layers", type=Path, required=True, help="safetensors file with the trained layers")
add_json_flag(parser, "--settings", ShippedLayersSource, help="the drafter's source, JSON")
parser.add_argument("--output", type=Path, required=True, help="model folder to make")

if __name__ == "__main__":
    run_script(parser, main)
