"""Turn counts into acceptance estimates and paired effects with bootstrap intervals."""

import argparse
from pathlib import Path
from typing import Any

from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.joins import by_adapter
from lora_spec.measurement.record_checks import ExpectedMeasurement
from lora_spec.measurement.record_table import read_record_file
from lora_spec.measurement.summary import SummarySettings, summarise_record
from lora_spec.provenance import collect_provenance
from lora_spec.records import AcceptanceRecord
from lora_spec.results import naming, write_result


def _summary(path: Path, record: AcceptanceRecord, settings: SummarySettings) -> dict[str, Any]:
    with naming(path):
        return summarise_record(record, settings)


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    settings = SummarySettings(**args.settings)
    expected = ExpectedMeasurement.from_dict(args.expected)
    measured = []
    for path in args.records:
        result, record = read_record_file(path, tier=args.tier)
        expected.check(record, result.payload.get("engine") or {})
        measured.append(record)
    by_adapter(measured, lambda record: record.adapter, what="acceptance records")
    write_result(
        args.output,
        kind="measured_acceptance",
        evidence="measured",
        tier=args.tier,
        provenance=collect_provenance(config={**args.settings, "expected": args.expected}, seed=settings.seed),
        payload={
            "adapters": [_summary(path, record, settings) for path, record in zip(args.records, measured, strict=True)]
        },
    )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--records", type=Path, nargs="+", required=True, help="acceptance records, one per adapter")
add_json_flag(parser, "--settings", SummarySettings, help="how to estimate, JSON")
add_json_flag(parser, "--expected", ExpectedMeasurement, help="prompts, engine and depth of the config, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
