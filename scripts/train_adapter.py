"""Train one LoRA adapter with PEFT from its row of the pool."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, existing_folder, run_script
from lora_spec.config.adapter_pool import Adapter
from lora_spec.training.recipe import AdapterRecipe


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    from lora_spec.training.make_adapter import make_adapter  # needs torch and PEFT

    recipe = AdapterRecipe.from_dict({key: value for key, value in args.row.items() if key != "source"})
    make_adapter(
        args.target,
        recipe,
        args.output,
        base_model_name=args.base_model_name,
        answers_dir=args.answers,
        num_threads=args.num_threads,
    )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--target", type=existing_folder, required=True, help="model folder of the target")
add_json_flag(parser, "--row", Adapter, help="the adapter's row of adapter_pool.yaml, JSON")
parser.add_argument("--base-model-name", required=True, help="what adapter_config.json calls the base")
parser.add_argument("--answers", type=existing_folder, help="the target's trajectories, where the domain rewrites them")
parser.add_argument("--num-threads", type=int, default=1, help="threads of torch; they decide the last bits")
parser.add_argument("--output", type=Path, required=True, help="adapter folder to make")

if __name__ == "__main__":
    run_script(parser, main)
