"""Download a model or an adapter of the hub at its immutable revision into a folder."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.cli.settings_flags import HubCommit
from lora_spec.training.hub_model import fetch_hub_model


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    fetch_hub_model(args.settings["repo"], args.settings["revision"], args.output)


parser = argparse.ArgumentParser(description=__doc__)
add_json_flag(parser, "--settings", HubCommit, help="repository and revision, JSON")
parser.add_argument("--output", type=Path, required=True, help="model folder to make")

if __name__ == "__main__":
    run_script(parser, main)
