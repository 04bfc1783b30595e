"""Fit the acceptance predictor, and predict each adapter from adapters of other domains only."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.cli.settings_flags import PredictorSettings
from lora_spec.features.payload import read_features
from lora_spec.measurement.record_table import read_records
from lora_spec.predictors.held_out import fit_and_hold_out
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    fitted = fit_and_hold_out(
        [read_features(path, tier=args.tier) for path in args.features],
        [read_records(path, tier=args.tier) for path in args.records],
        gate=args.settings["gate"],
        sources=args.settings["domains"],
        target_model=args.settings["context"]["target_model"],
        draft_model=args.settings["context"]["draft_model"],
    )
    provenance = collect_provenance(config=args.settings, seed=args.settings["gate"]["predictor"]["seed"])
    for kind, payload in (("predictor", fitted.predictor), ("predictions", fitted.predictions)):
        write_result(
            args.output_dir / f"{kind}.json",
            kind=kind,
            evidence="measured",
            tier=args.tier,
            provenance=provenance,
            payload=payload,
        )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--features", type=Path, nargs="+", required=True, help="one per adapter")
parser.add_argument("--records", type=Path, nargs="+", required=True, help="acceptance records, one per adapter")
add_json_flag(parser, "--settings", PredictorSettings, help="gate, pool and pair, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--output-dir", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
