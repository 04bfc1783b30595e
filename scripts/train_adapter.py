"""Make one adapter from its row of the pool: trained with PEFT, or derived from another adapter."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, existing_folder, positive_count, run_script
from lora_spec.config.adapter_pool import Adapter
from lora_spec.training.recipe import recipe_of_row


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    from lora_spec.training.make_adapter import make_adapter  # needs torch and PEFT

    make_adapter(
        args.target,
        recipe_of_row(args.row),
        args.output,
        base_model_name=args.base_model_name,
        answers_dir=args.answers,
        num_threads=args.num_threads,
        device=args.device,
        parent_dir=args.parent,
    )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--target", type=existing_folder, required=True, help="model folder of the target")
add_json_flag(parser, "--row", Adapter, help="the adapter's row of adapter_pool.yaml, JSON")
parser.add_argument("--base-model-name", required=True, help="what adapter_config.json calls the base")
parser.add_argument("--answers", type=existing_folder, help="the target's trajectories, where the domain rewrites them")
parser.add_argument("--parent", type=existing_folder, help="folder that a scaled or random row is derived from")
parser.add_argument("--num-threads", type=positive_count, default=1, help="threads of torch; they decide the last bits")
parser.add_argument(
    "--device", choices=("cpu", "cuda"), default="cpu", help="where it is trained (default: %(default)s)"
)
parser.add_argument("--output", type=Path, required=True, help="adapter folder to make")

if __name__ == "__main__":
    run_script(parser, main)
