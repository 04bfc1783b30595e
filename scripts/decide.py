"""Give every adapter two verdicts: from its measured acceptance, and from a prediction made without it."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.cli.settings_flags import PairNames
from lora_spec.config.gate import GateConfig
from lora_spec.cost_model.payload import read_cost_model_result
from lora_spec.features.payload import read_features
from lora_spec.gate.fleet import decide_fleet
from lora_spec.gate.payload import read_certification
from lora_spec.measurement.payload import read_measured
from lora_spec.predictors.payload import read_predictions
from lora_spec.provenance import collect_provenance
from lora_spec.results import json_bytes, write_all_atomically


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    predictions = read_predictions(args.predictions, tier=args.tier)
    provenance = collect_provenance(config=args.gate, seed=args.gate["seed"])
    verdicts = decide_fleet(
        [read_features(path, tier=args.tier) for path in args.features],
        read_measured(args.measured, tier=args.tier).payload["adapters"],
        predictions.payload,
        cost_model=read_cost_model_result(args.cost_model, tier=args.tier).payload,
        gate=args.gate,
        context={"tier": args.tier, **args.context},
        provenance={**provenance, "tier": args.tier, "evidence": predictions.evidence},
        certification=read_certification(args.certification, tier=args.tier).payload,
    )
    write_all_atomically(
        {args.output_dir / f"{v.adapter['name']}.{v.mode}.json": json_bytes(v.to_dict()) for v in verdicts}
    )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--features", type=Path, nargs="+", required=True)
for flag in ("--measured", "--predictions", "--cost-model", "--certification", "--output-dir"):
    parser.add_argument(flag, type=Path, required=True)
add_json_flag(parser, "--gate", GateConfig, help="gate.yaml, JSON")
add_json_flag(parser, "--context", PairNames, help="what the numbers hold for, JSON")
parser.add_argument("--tier", required=True)

if __name__ == "__main__":
    run_script(parser, main)
