"""Give every adapter two verdicts: from its measured acceptance, and from a prediction made without it."""

import argparse
from pathlib import Path

from lora_spec.cli.script import json_flag, run_script
from lora_spec.gate.fleet import decide_fleet
from lora_spec.joins import read_payloads, read_tier_result
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_json_atomically


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    predictions = read_tier_result(args.predictions, "predictions", tier=args.tier)
    provenance = collect_provenance(config=args.gate, seed=args.gate["seed"])
    verdicts = decide_fleet(
        read_payloads(args.features, "features", tier=args.tier),
        read_tier_result(args.measured, "measured_acceptance", tier=args.tier).payload["adapters"],
        predictions.payload,
        cost_model=read_tier_result(args.cost_model, "cost_model", tier=args.tier).payload,
        gate=args.gate,
        context={"tier": args.tier, **args.context},
        provenance={**provenance, "tier": args.tier, "evidence": predictions.evidence},
    )
    for verdict in verdicts:
        path = args.output_dir / f"{verdict.adapter['name']}.{verdict.mode}.json"
        write_json_atomically(path, verdict.to_dict())


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--features", type=Path, nargs="+", required=True)
for flag in ("--measured", "--predictions", "--cost-model", "--output-dir"):
    parser.add_argument(flag, type=Path, required=True)
parser.add_argument("--gate", type=json_flag, required=True, help="gate.yaml, JSON")
parser.add_argument("--context", type=json_flag, required=True, help="what the numbers hold for, JSON")
parser.add_argument("--tier", required=True)

if __name__ == "__main__":
    run_script(parser, main)
