"""Compare every predictor in every mode, and every null, on adapters whose source their fits did not see."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.cli.settings_flags import ComparisonSettings
from lora_spec.cost_model.payload import read_cost_model
from lora_spec.features.payload import read_features
from lora_spec.gate.predictor_comparison import compare_predictors
from lora_spec.measurement.calibration_table import read_calibration
from lora_spec.measurement.record_table import read_records
from lora_spec.plots.predictor_scores_table import predictor_scores_table
from lora_spec.plots.probe_curve_table import probe_curve_table
from lora_spec.plots.saving import csv_bytes
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_all_atomically, write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    settings, gate, tier = args.settings, args.settings["gate"], args.tier
    comparison = compare_predictors(
        [read_features(path, tier=tier) for path in args.features],
        [read_records(path, tier=tier) for path in args.records],
        read_cost_model(args.cost_model, tier=tier),
        gate=gate,
        sources=settings["domains"],
        scored=settings["scored"],
        context=settings["context"],
        probes=[read_calibration(path, tier=tier) for path in args.calibration],
    )
    tables = {args.figure_table: predictor_scores_table(comparison, tier=tier, setup=settings["setup"])}
    for path in args.curve_table:
        tables[path] = probe_curve_table(comparison, tier=tier, setup=settings["setup"])
    provenance = collect_provenance(config=settings, seed=gate["comparison"]["seed"])
    write_result(
        args.output,
        kind="predictor_comparison",
        evidence="measured",
        tier=tier,
        provenance=provenance,
        payload=comparison,
    )
    write_all_atomically({path: csv_bytes(table) for path, table in tables.items()})


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--features", type=Path, nargs="+", required=True, help="one per adapter")
parser.add_argument("--records", type=Path, nargs="+", required=True, help="acceptance records, one per adapter")
parser.add_argument("--calibration", type=Path, nargs="*", default=[], help="calibration records, one per adapter")
parser.add_argument("--cost-model", type=Path, required=True)
add_json_flag(parser, "--settings", ComparisonSettings, help="gate, pool, pair and which adapters count, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--output", type=Path, required=True)
parser.add_argument("--figure-table", type=Path, required=True, help="the table of figure 4 goes here")
parser.add_argument("--curve-table", type=Path, nargs="*", default=[], help="the table of figure 4b, if all are probed")

if __name__ == "__main__":
    run_script(parser, main)
