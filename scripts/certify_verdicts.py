"""Choose how doubtful a predicted verdict may be on half of the sources, and certify it on the other half."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.cli.settings_flags import CertificationSettings
from lora_spec.cost_model.payload import read_cost_model
from lora_spec.gate.certification import certify_predictions
from lora_spec.measurement.payload import read_measured
from lora_spec.predictors.payload import read_predictions
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    predictions, settings = read_predictions(args.predictions, tier=args.tier), args.settings
    write_result(
        args.output,
        kind="certification",
        evidence=predictions.evidence,
        tier=args.tier,
        provenance=collect_provenance(config=settings, seed=settings["gate"]["abstention"]["seed"]),
        payload=certify_predictions(
            predictions.payload,
            read_measured(args.measured, tier=args.tier).payload["adapters"],
            sources=settings["domains"],
            cost_model=read_cost_model(args.cost_model, tier=args.tier),
            gate=settings["gate"],
        ),
    )


parser = argparse.ArgumentParser(description=__doc__)
for flag in ("--measured", "--predictions", "--cost-model", "--output"):
    parser.add_argument(flag, type=Path, required=True)
add_json_flag(parser, "--settings", CertificationSettings, help="gate.yaml and domains of the judged adapters, JSON")
parser.add_argument("--tier", required=True)

if __name__ == "__main__":
    run_script(parser, main)
