"""Put the fitted predictor, its held-out predictions and what is scored of them beside the shipped records of a tier.

Run it after: make figures TIER=... Runs on shipped records then take them over instead of fitting again, as long as
records, features, calibration and settings are the same.
"""

import argparse
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import run_script
from lora_spec.kept_results import check_can_be_kept
from lora_spec.results import write_all_atomically

KINDS = {
    "predictor": "predictor",
    "predictions": "predictions",
    "probed/predictor": "predictor",
    "probed/predictions": "predictions",
    "comparison": "predictor_comparison",
    "unseen_families": "unseen_families",
}


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    run, shipped = Path("results") / f"{args.tier}-shipped" / "predictor", Path("reference") / args.tier / "predictor"
    paths = {name: run / f"{name}.json" for name in KINDS}
    found = {
        shipped / f"{name}.json": check_can_be_kept(path, KINDS[name], tier=args.tier)
        for name, path in paths.items()
        # A tier of few domains compares nothing.
        if path.exists() or name in ("predictor", "predictions")
    }
    write_all_atomically(found)
    tell(f"{len(found)} results of fits in {shipped}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--tier", required=True, help="folder below reference/")

if __name__ == "__main__":
    run_script(parser, main)
