"""Write the prompts of every role and check them against their frozen hashes."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.config.prompts import PromptsConfig
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result
from lora_spec.training.frozen_prompts import freeze_prompts


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    frozen = freeze_prompts(args.settings["sets"])
    write_result(
        args.output,
        kind="prompts",
        evidence="contract-only",
        tier=args.tier,
        provenance=collect_provenance(config=args.settings, seed=None),
        payload={"sets": frozen},
    )


parser = argparse.ArgumentParser(description=__doc__)
add_json_flag(parser, "--settings", PromptsConfig, help="prompts.yaml, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
