"""Train a small target of another family on the text that the first one wrote, going on after a kill."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, existing_folder, run_script
from lora_spec.config.models import TargetTrainingConfig
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    from lora_spec.training.train_target import train_target  # needs torch

    curve = train_target(args.teacher, args.answers, training=args.settings, state_dir=args.state, out_dir=args.output)
    write_result(
        args.curve,
        kind="target_curve",
        evidence="measured",
        tier=args.tier,
        provenance=collect_provenance(config=args.settings, seed=args.settings["training_seed"]),
        payload={"rows": curve},
    )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--teacher", type=existing_folder, required=True, help="model folder whose tokenizer reads answers")
parser.add_argument("--answers", type=existing_folder, required=True, help="shards of its trajectories")
add_json_flag(parser, "--settings", TargetTrainingConfig, help="training block of the target in models.yaml, JSON")
parser.add_argument("--state", type=Path, required=True, help="folder where weights and moments survive a kill")
parser.add_argument("--output", type=Path, required=True, help="model folder to make")
parser.add_argument("--curve", type=Path, required=True, help="learning curve, JSON")
parser.add_argument("--tier", required=True)

if __name__ == "__main__":
    run_script(parser, main)
