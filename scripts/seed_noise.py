"""Tell the noise floor: how far acceptance moves between adapters that differ in nothing but their seed."""

import argparse
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.measurement.record_table import read_records
from lora_spec.measurement.seed_noise import SeedNoiseSettings, seed_noise
from lora_spec.provenance import collect_provenance
from lora_spec.results import naming, write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    settings = SeedNoiseSettings.from_dict(args.settings)
    records = [read_records(path, tier=args.tier) for path in args.records]
    with naming(*args.records):
        payload = seed_noise(records, settings)
    provenance = collect_provenance(config=args.settings, seed=settings.estimating.seed)
    write_result(
        args.output, kind="seed_noise", evidence="measured", tier=args.tier, provenance=provenance, payload=payload
    )
    tell(payload["sentence"])


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--records", type=Path, nargs="+", required=True, help="acceptance records, one per adapter")
add_json_flag(parser, "--settings", SeedNoiseSettings, help="groups, separate adapters, how to estimate, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
