"""Report how predictions and measurements on the first pair of models stand to measurements on the second."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, existing_folder, run_script
from lora_spec.gate.confirming import read_chosen, transfer_of
from lora_spec.measurement.payload import read_measured
from lora_spec.measurement.record_checks import ExpectedMeasurement
from lora_spec.measurement.summary import SummarySettings
from lora_spec.measurement.summary_files import summarise_files
from lora_spec.provenance import collect_provenance
from lora_spec.results import naming, write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    settings = SummarySettings(**args.settings)
    chosen = read_chosen(args.plan, tier=args.tier)
    first = read_measured(args.measured, tier=args.tier).payload["adapters"]
    files = [args.records / f"{item.adapter}.parquet" for item in chosen]
    second = summarise_files(files, settings, ExpectedMeasurement.from_dict(args.expected), tier=args.tier)
    with naming(args.plan, args.measured):
        report = transfer_of(chosen, first, second, settings)
    provenance = collect_provenance(config={**args.settings, "expected": args.expected}, seed=settings.seed)
    for path, kind, payload in (
        (args.confirm_measured, "measured_acceptance", {"adapters": second}),
        (args.output, "transfer", report),
    ):
        write_result(path, kind=kind, evidence="measured", tier=args.tier, provenance=provenance, payload=payload)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--plan", type=Path, required=True, help="plan of phase2_confirm, which holds the predictions")
parser.add_argument("--records", type=existing_folder, required=True, help="acceptance records on the second pair")
parser.add_argument("--measured", type=Path, required=True, help="measured acceptance on the first pair")
add_json_flag(parser, "--settings", SummarySettings, help="how to estimate, JSON")
add_json_flag(parser, "--expected", ExpectedMeasurement, help="prompts, engine and depth of the config, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--confirm-measured", type=Path, required=True, help="estimates on the second pair, JSON")
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
