"""Predict adapters without their whole family, and say whether the gate then abstains more than it does otherwise."""

import argparse
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import add_json_flag, positive_count, run_script
from lora_spec.cli.settings_flags import UnseenFamiliesSettings
from lora_spec.cost_model import CostModel
from lora_spec.cost_model.payload import read_cost_model_result
from lora_spec.features.payload import read_features
from lora_spec.gate.payload import read_certification
from lora_spec.gate.unseen_families import unseen_families
from lora_spec.gate.unseen_families_payload import read_unseen_families
from lora_spec.kept_results import KEY, inputs_sha256, take_kept
from lora_spec.measurement.record_table import read_records
from lora_spec.predictors.payload import read_predictions
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result

KIND = "unseen_families"


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    settings, tier = args.settings, args.tier
    times = read_cost_model_result(args.cost_model, tier=tier).payload
    certification = read_certification(args.certification, tier=tier).payload
    inputs = inputs_sha256([*args.features, *args.records], settings, computed=[times, certification])
    kept = {} if args.kept is None else {args.output: args.kept}
    reason = take_kept(kept, readers={args.output: read_unseen_families}, tier=tier, inputs=inputs)
    if reason is None:
        return
    tell(f"{reason}: fitting without each family")
    payload = unseen_families(
        [read_features(path, tier=tier) for path in args.features],
        [read_records(path, tier=tier) for path in args.records],
        predictions=read_predictions(args.predictions, tier=tier).payload,
        certification=certification,
        cost_model=CostModel.from_dict(times),
        gate=settings["gate"],
        sources=settings["domains"],
        scored=settings["scored"],
        families=settings["families"],
        num_workers=args.threads,
    )
    provenance = collect_provenance(config=settings, seed=settings["gate"]["comparison"]["seed"]) | {KEY: inputs}
    write_result(args.output, kind=KIND, evidence="measured", tier=tier, provenance=provenance, payload=payload)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--features", type=Path, nargs="+", required=True, help="one per adapter")
parser.add_argument("--records", type=Path, nargs="+", required=True, help="acceptance records, one per adapter")
for flag in ("--predictions", "--certification", "--cost-model", "--output"):
    parser.add_argument(flag, type=Path, required=True)
add_json_flag(parser, "--settings", UnseenFamiliesSettings, help="gate, pool, pair, families and who counts, JSON")
parser.add_argument("--kept", type=Path, help="such a result, taken over if of the same inputs")
parser.add_argument("--threads", type=positive_count, default=1, help="processes that fit (default: %(default)s)")
parser.add_argument("--tier", required=True)

if __name__ == "__main__":
    run_script(parser, main)
