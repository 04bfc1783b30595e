"""Let the target write the text that the drafter, and some adapters, learn from, in resumable shards."""

import argparse
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import add_json_flag, existing_folder, run_script
from lora_spec.config.distillation import TrajectoriesConfig
from lora_spec.config.models import EngineConfig
from lora_spec.engines import open_engine
from lora_spec.engines.options import offline_options
from lora_spec.training.own_trajectories import chat_generator, drafter_shard_plans
from lora_spec.training.trajectories import generate_missing_shards, link_shards


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    plans = drafter_shard_plans(args.settings)
    with open_engine("vllm_offline", target=str(args.target), **offline_options(args.engine)) as engine:
        made = generate_missing_shards(plans, args.shards, chat_generator(engine, args.settings["max_tokens"]))
    link_shards(plans, args.shards, args.output)
    tell(f"{made} shards made, {len(plans) - made} were there")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--target", type=existing_folder, required=True, help="model folder of the target")
add_json_flag(
    parser,
    "--settings",
    TrajectoriesConfig,
    help="which prompts are answered, from the drafter's training block or own_answers, JSON",
)
add_json_flag(parser, "--engine", EngineConfig, help="engine block of models.yaml, JSON")
parser.add_argument("--shards", type=Path, required=True, help="folder where shards survive an interrupted run")
parser.add_argument("--output", type=Path, required=True, help="folder with exactly the shards of these settings")

if __name__ == "__main__":
    run_script(parser, main)
