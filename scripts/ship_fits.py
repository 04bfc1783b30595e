"""Put the fitted predictor, its held-out predictions and what is scored of them beside the shipped records of a tier.

Run it after: make figures TIER=... Runs on shipped records then take them over instead of fitting again, as long as
records, features, calibration and settings are the same.
"""

import argparse
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import run_script, tier_name
from lora_spec.gate.predictor_comparison_payload import read_comparison
from lora_spec.gate.unseen_families_payload import read_unseen_families
from lora_spec.kept_results import check_can_be_kept
from lora_spec.predictors.payload import read_predictions, read_predictor
from lora_spec.results import write_all_atomically

READERS = {
    "predictor": read_predictor,
    "predictions": read_predictions,
    "probed/predictor": read_predictor,
    "probed/predictions": read_predictions,
    "comparison": read_comparison,
    "unseen_families": read_unseen_families,
}


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    run, shipped = Path("results") / f"{args.tier}-shipped" / "predictor", Path("reference") / args.tier / "predictor"
    paths = {name: run / f"{name}.json" for name in READERS}
    found = {
        shipped / f"{name}.json": check_can_be_kept(path, READERS[name], tier=args.tier)
        for name, path in paths.items()
        # A tier of few domains compares nothing.
        if path.exists() or name in ("predictor", "predictions")
    }
    write_all_atomically(found)
    tell(f"{len(found)} results of fits in {shipped}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--tier", type=tier_name, required=True, help="folder below reference/")

if __name__ == "__main__":
    run_script(parser, main)
