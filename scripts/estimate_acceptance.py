"""Turn counts into acceptance estimates and paired effects with bootstrap intervals."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.measurement.record_checks import ExpectedMeasurement
from lora_spec.measurement.summary import SummarySettings
from lora_spec.measurement.summary_files import summarise_files
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    settings = SummarySettings(**args.settings)
    expected = ExpectedMeasurement.from_dict(args.expected)
    write_result(
        args.output,
        kind="measured_acceptance",
        evidence="measured",
        tier=args.tier,
        provenance=collect_provenance(config={**args.settings, "expected": args.expected}, seed=settings.seed),
        payload={"adapters": summarise_files(args.records, settings, expected, tier=args.tier)},
    )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--records", type=Path, nargs="+", required=True, help="acceptance records, one per adapter")
add_json_flag(parser, "--settings", SummarySettings, help="how to estimate, JSON")
add_json_flag(parser, "--expected", ExpectedMeasurement, help="prompts, engine and depth of the config, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
