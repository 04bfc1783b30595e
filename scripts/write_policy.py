"""Write the fleet's policy, its plan of pools, a profile per adapter and the fleet page from measured verdicts."""

import argparse
from pathlib import Path

from lora_spec.cli.policy import by_name, named_adapter
from lora_spec.cli.policy_folder import FleetInputs, write_policy_folder
from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.config.gate import GateConfig
from lora_spec.cost_model.payload import read_cost_model_result
from lora_spec.cost_model.step_payload import read_step_cost_result
from lora_spec.gate.fleet_verdicts import read_fleet
from lora_spec.joins import by_adapter
from lora_spec.measurement.payload import read_measured
from lora_spec.provenance import collect_provenance


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    measured = read_measured(args.measured, tier=args.tier).payload["adapters"]
    inputs = FleetInputs(
        verdicts=read_fleet(args.verdicts),
        cost_model=read_cost_model_result(args.cost_model, tier=args.tier),
        gate=args.gate,
        target=args.target,
        drafter=args.drafter,
        adapter_paths=by_name(args.adapters),
        provenance=collect_provenance(config=args.gate, seed=args.gate["seed"]),
        summaries=by_adapter(measured, lambda item: item["adapter"], what="measured adapters"),
        step_cost=args.step_cost and read_step_cost_result(args.step_cost, tier=args.tier),
        max_loras=args.max_loras,
        max_lora_rank=args.max_lora_rank,
    )
    write_policy_folder(inputs, args.output_dir)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--verdicts", type=Path, nargs="+", required=True, help="one measured verdict per adapter")
for flag in ("--measured", "--cost-model", "--output-dir"):
    parser.add_argument(flag, type=Path, required=True)
parser.add_argument("--step-cost", type=Path, help="fitted parts of a step, for what being off in the engine costs")
parser.add_argument("--adapters", type=named_adapter, nargs="+", required=True, help="NAME=FOLDER, as servers are told")
for flag in ("--target", "--drafter", "--tier"):
    parser.add_argument(flag, required=True)
for flag in ("--max-loras", "--max-lora-rank"):
    parser.add_argument(flag, type=int, required=True)
add_json_flag(parser, "--gate", GateConfig, help="gate.yaml, JSON")

if __name__ == "__main__":
    run_script(parser, main)
