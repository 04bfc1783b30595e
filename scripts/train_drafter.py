"""Distil the drafter's layers on the target's own trajectories, going on from where a killed run stopped."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, existing_folder, run_script
from lora_spec.cli.settings_flags import DrafterSettings
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    from lora_spec.training.train_drafter import train_drafter  # needs torch

    curve = train_drafter(
        args.target,
        args.trajectories,
        layers=args.settings["source"]["layers"],
        training=args.settings["training"],
        state_dir=args.state,
        output=args.output,
        early_output=args.early_output,
    )
    write_result(
        args.curve,
        kind="drafter_curve",
        evidence="measured",
        tier=args.tier,
        provenance=collect_provenance(config=args.settings, seed=args.settings["training"]["training_seed"]),
        payload={"rows": curve},
    )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--target", type=existing_folder, required=True, help="model folder of the target")
parser.add_argument("--trajectories", type=existing_folder, required=True, help="shards of trajectories")
add_json_flag(parser, "--settings", DrafterSettings, help="drafter block of models.yaml, JSON")
parser.add_argument("--state", type=Path, required=True, help="folder where weights and moments survive a kill")
parser.add_argument("--output", type=Path, required=True, help="safetensors file for the trained layers")
parser.add_argument("--early-output", type=Path, required=True, help="the same at the first checkpoint")
parser.add_argument("--curve", type=Path, required=True, help="learning curve, JSON")
parser.add_argument("--tier", required=True)

if __name__ == "__main__":
    run_script(parser, main)
