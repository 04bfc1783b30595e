"""Hold every policy against the oracle over mixes of adapters, and verdicts against off and standing at every load."""

import argparse
from pathlib import Path
from typing import Any

from lora_spec.cli.script import add_json_flag, positive_count, run_script
from lora_spec.cli.settings_flags import GateRegretSettings
from lora_spec.cost_model.payload import read_cost_model
from lora_spec.cost_model.step_payload import read_step_costs
from lora_spec.gate.fleet_verdicts import read_fleet
from lora_spec.measurement.calibration_table import read_calibration
from lora_spec.measurement.payload import read_measured
from lora_spec.plots.gate_regret_table import gate_regret_table
from lora_spec.plots.saving import csv_bytes
from lora_spec.predictors.payload import read_predictions
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_bytes_atomically, write_result
from lora_spec.stress.mixes.report import Evidence, gate_regret


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    settings, tier = args.settings, args.tier
    blocks = {key: settings[key] for key in ("gate", "baselines", "traffic", "scored")}
    payload = gate_regret(_evidence(args), **blocks, threads=args.threads)
    provenance = collect_provenance(config=settings, seed=settings["baselines"]["mixes"]["seed"])
    told = {"kind": "gate_regret", "evidence": "measured", "tier": tier, "provenance": provenance}
    write_result(args.output, payload=payload, **told)
    table = gate_regret_table(payload, tier=tier, setup=settings["setup"])
    write_bytes_atomically(args.figure_table, csv_bytes(table))


def _evidence(args: argparse.Namespace) -> Evidence:
    settings, tier = args.settings, args.tier
    pair = {"target": settings["context"]["target_model"], "drafter": settings["context"]["draft_model"]}
    predictions: list[dict[str, Any]] = [read_predictions(path, tier=tier).payload for path in args.predictions]
    modes = [*(item["context"]["mode"] for item in predictions), "measured"]
    return Evidence(
        summaries=read_measured(args.measured, tier=tier).payload["adapters"],
        predictions=predictions,
        verdicts=[read_fleet(args.verdicts, mode=mode) for mode in modes],
        probes=[read_calibration(path, tier=tier, pair=pair) for path in args.calibration],
        cost_model=read_cost_model(args.cost_model, tier=tier),
        step_cost=args.step_cost and read_step_costs(args.step_cost, tier=tier),
    )


parser = argparse.ArgumentParser(description=__doc__)
for flag in ("--measured", "--cost-model", "--output"):
    parser.add_argument(flag, type=Path, required=True)
parser.add_argument("--predictions", type=Path, nargs="+", required=True, help="held-out, the gate's own mode first")
parser.add_argument("--verdicts", type=Path, nargs="+", required=True, help="of all adapters in all modes")
parser.add_argument("--calibration", type=Path, nargs="*", default=[], help="calibration records, one per adapter")
parser.add_argument("--step-cost", type=Path, help="fitted parts of a step, for merged weights and the tax of off")
add_json_flag(parser, "--settings", GateRegretSettings, help="gate, baselines, traffic and which adapters count, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--threads", type=positive_count, default=1, help="processes at once (default: %(default)s)")
parser.add_argument("--figure-table", type=Path, required=True, help="the table of figure 5b goes here")

if __name__ == "__main__":
    run_script(parser, main)
