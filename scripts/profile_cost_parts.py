"""Time what a step is made of: contexts, prompts, mixed depths, adapter loads, engines without drafter or LoRA."""

import argparse
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import add_json_flag, existing_folder, named_path, run_script
from lora_spec.cli.settings_flags import PairNames
from lora_spec.config.cost_parts import CostPartsConfig
from lora_spec.config.models import EngineConfig
from lora_spec.measurement.campaign import named_folders
from lora_spec.measurement.cost_parts import profile_cost_parts
from lora_spec.measurement.processor import cpu_features
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    payload = profile_cost_parts(
        args.settings,
        args.engine,
        target=args.target,
        drafter=args.drafter,
        adapters=named_folders(args.adapters),
        names={"target": args.pair["target_model"], "drafter": args.pair["draft_model"]},
        report=tell,
    )
    settings = {"cost_parts": args.settings, "engine": args.engine}
    provenance = collect_provenance(config=settings, seed=args.settings["seed"])
    provenance["runtime"]["cpu_features"] = cpu_features()
    write_result(
        args.output,
        kind="cost_parts",
        evidence="measured",
        tier=args.tier,
        provenance=provenance,
        payload=payload,
    )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--target", type=existing_folder, required=True, help="model folder of the target")
parser.add_argument("--drafter", type=existing_folder, required=True, help="model folder of the drafter")
parser.add_argument("--adapters", type=named_path, nargs="+", required=True, help="NAME=FOLDER of adapters to serve")
add_json_flag(parser, "--settings", CostPartsConfig, help="cost_parts block of phase1_measurement.yaml, JSON")
add_json_flag(parser, "--engine", EngineConfig, help="engine block of models.yaml, JSON")
add_json_flag(parser, "--pair", PairNames, help="names of target and drafter, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
