"""Give every adapter its verdicts: from its measured acceptance, and from predictions made without it."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.cli.settings_flags import PairNames
from lora_spec.config.gate import GateConfig
from lora_spec.cost_model.payload import read_cost_model_result
from lora_spec.errors import ConfigError
from lora_spec.features.payload import read_features
from lora_spec.gate.fleet import decide_fleet
from lora_spec.gate.payload import read_certification
from lora_spec.measurement.payload import read_measured
from lora_spec.predictors.payload import read_predictions
from lora_spec.provenance import collect_provenance
from lora_spec.results import json_bytes, write_all_atomically


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    if len(args.predictions) != len(args.certification):
        raise ConfigError("--certification needs one file per file of --predictions, in the same order")
    features = [read_features(path, tier=args.tier) for path in args.features]
    measured = read_measured(args.measured, tier=args.tier).payload["adapters"]
    cost_model = read_cost_model_result(args.cost_model, tier=args.tier).payload
    provenance, verdicts = collect_provenance(config=args.gate, seed=args.gate["seed"]), []
    for path, certification in zip(args.predictions, args.certification, strict=True):
        predictions = read_predictions(path, tier=args.tier)
        verdicts += decide_fleet(
            features,
            measured,
            predictions.payload,
            cost_model=cost_model,
            gate=args.gate,
            context={"tier": args.tier, **args.context},
            provenance={**provenance, "tier": args.tier, "evidence": predictions.evidence},
            certification=read_certification(certification, tier=args.tier).payload,
        )
    write_all_atomically(
        {args.output_dir / f"{v.adapter['name']}.{v.mode}.json": json_bytes(v.to_dict()) for v in verdicts}
    )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--features", type=Path, nargs="+", required=True)
parser.add_argument("--predictions", type=Path, nargs="+", required=True, help="one per mode")
parser.add_argument("--certification", type=Path, nargs="+", required=True, help="of these, in the same order")
for flag in ("--measured", "--cost-model", "--output-dir"):
    parser.add_argument(flag, type=Path, required=True)
add_json_flag(parser, "--gate", GateConfig, help="gate.yaml, JSON")
add_json_flag(parser, "--context", PairNames, help="what the numbers hold for, JSON")
parser.add_argument("--tier", required=True)

if __name__ == "__main__":
    run_script(parser, main)
