"""Turn one adapter's tensors into numbers, without torch and without a run of any model."""

import argparse
from pathlib import Path

from lora_spec.adapter.digest import check_row_weights
from lora_spec.cli.script import adapter_name, run_script
from lora_spec.features import features_record, read_base_profile
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    check_row_weights(args.adapter, args.sha256, row=args.name)
    profile = None if args.base_profile is None else read_base_profile(args.base_profile)
    write_result(
        args.output,
        kind="features",
        evidence="measured",
        tier=args.tier,
        provenance=collect_provenance(config={"adapter": args.name}, seed=None),
        payload=features_record(args.adapter, name=args.name, profile=profile),
    )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--adapter", type=Path, required=True, help="adapter folder")
parser.add_argument("--name", type=adapter_name, required=True, help="the adapter's name in the pool")
parser.add_argument("--sha256", help="SHA-256 of the weights by the adapter's row, where the row has one")
parser.add_argument("--base-profile", type=Path, help="profile of the base, where the tier has one")
parser.add_argument("--tier", required=True)
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
