"""Compare every predictor in every mode, and every null, on adapters whose source their fits did not see."""

import argparse
from pathlib import Path
from typing import Any

from lora_spec.cli.output import tell
from lora_spec.cli.script import add_json_flag, positive_count, run_script
from lora_spec.cli.settings_flags import ComparisonSettings
from lora_spec.cost_model import CostModel
from lora_spec.cost_model.payload import read_cost_model_result
from lora_spec.features.payload import read_features
from lora_spec.gate.predictor_comparison import compare_predictors
from lora_spec.gate.predictor_comparison_payload import read_comparison
from lora_spec.kept_results import KEY, inputs_sha256, take_kept
from lora_spec.measurement.calibration_table import read_calibration
from lora_spec.measurement.record_table import read_records
from lora_spec.plots.predictor_scores_table import predictor_scores_table
from lora_spec.plots.probe_curve_table import probe_curve_table
from lora_spec.plots.saving import csv_bytes
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_all_atomically, write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    settings, tier = args.settings, args.tier
    times = read_cost_model_result(args.cost_model, tier=tier).payload
    files = [*args.features, *args.records, *args.calibration]
    inputs = inputs_sha256(files, settings, computed=[times])
    kept = {} if args.kept is None else {args.output: args.kept}
    reason = take_kept(kept, readers={args.output: read_comparison}, tier=tier, inputs=inputs)
    if reason is not None:
        tell(f"{reason}: comparing")
        write_result(
            args.output,
            kind="predictor_comparison",
            evidence="measured",
            tier=tier,
            provenance=collect_provenance(config=settings, seed=settings["gate"]["comparison"]["seed"]) | {KEY: inputs},
            payload=_compare(args, CostModel.from_dict(times)),
        )
    comparison = read_comparison(args.output, tier=tier).payload
    tables = {args.figure_table: predictor_scores_table(comparison, tier=tier, setup=settings["setup"])}
    for path in args.curve_table:
        tables[path] = probe_curve_table(comparison, tier=tier, setup=settings["setup"])
    write_all_atomically({path: csv_bytes(table) for path, table in tables.items()})


def _compare(args: argparse.Namespace, cost_model: CostModel) -> dict[str, Any]:
    settings, tier = args.settings, args.tier
    pair = {"target": settings["context"]["target_model"], "drafter": settings["context"]["draft_model"]}
    return compare_predictors(
        [read_features(path, tier=tier) for path in args.features],
        [read_records(path, tier=tier) for path in args.records],
        cost_model,
        gate=settings["gate"],
        sources=settings["domains"],
        scored=settings["scored"],
        context=settings["context"],
        probes=[read_calibration(path, tier=tier, pair=pair) for path in args.calibration],
        num_workers=args.threads,
    )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--features", type=Path, nargs="+", required=True, help="one per adapter")
parser.add_argument("--records", type=Path, nargs="+", required=True, help="acceptance records, one per adapter")
parser.add_argument("--calibration", type=Path, nargs="*", default=[], help="calibration records, one per adapter")
parser.add_argument("--cost-model", type=Path, required=True)
add_json_flag(parser, "--settings", ComparisonSettings, help="gate, pool, pair and which adapters count, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--kept", type=Path, help="a comparison, taken over if of the same inputs")
parser.add_argument("--threads", type=positive_count, default=1, help="processes that fit (default: %(default)s)")
parser.add_argument("--output", type=Path, required=True)
parser.add_argument("--figure-table", type=Path, required=True, help="the table of figure 4 goes here")
parser.add_argument("--curve-table", type=Path, nargs="*", default=[], help="the table of figure 4b, if all are probed")

if __name__ == "__main__":
    run_script(parser, main)
