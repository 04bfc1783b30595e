"""Count how much of each domain's prompts and wanted answers stands in the text that the drafter was distilled on."""

import argparse
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import add_json_flag, existing_folder, run_script
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result
from lora_spec.training.model_tokenizer import load_tokenizer
from lora_spec.training.overlap import (
    KIND,
    ChatCutter,
    OverlapSettings,
    overlap_of_domains,
    read_own_evaluation,
    read_training_text,
)
from lora_spec.training.own_answers import load_own_answers


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    tokenizer, seed = load_tokenizer(args.target), args.settings["pair_seed"]
    payload = overlap_of_domains(
        read_own_evaluation(args.prompts, tier=args.tier),
        read_training_text(args.trajectories, args.settings["training"], ChatCutter(tokenizer)),
        load_own_answers(args.trajectories, tokenizer=tokenizer),
        tokenizer=tokenizer,
        pair_seed=seed,
    )
    provenance = collect_provenance(config=args.settings, seed=seed)
    write_result(
        args.output, kind=KIND, evidence="measured", tier=args.tier, provenance=provenance, payload=dict(payload)
    )
    tell(f"{len(payload['domains'])} domains against {payload['num_answer_tokens']} tokens that the target wrote")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--target", type=existing_folder, required=True, help="model folder of the target; its tokenizer")
parser.add_argument("--trajectories", type=existing_folder, required=True, help="shards that the drafter learned from")
parser.add_argument("--prompts", type=Path, required=True, help="frozen prompts; own ones of role evaluation are read")
add_json_flag(parser, "--settings", OverlapSettings, help="the drafter's recipe and the seed of the pairs, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
