"""Run the full grid of policies, traffic, cache modes and loads in the simulator, cell by cell, resumable."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, positive_count, run_script
from lora_spec.cli.settings_flags import SimulationSettings
from lora_spec.cli.stress_files import rates_by_adapter, read_policy, write_stress
from lora_spec.cost_model.step_payload import read_step_costs
from lora_spec.measurement.payload import read_measured
from lora_spec.predictors.payload import read_predictions
from lora_spec.provenance import collect_provenance
from lora_spec.stress.comparison import stress_payload
from lora_spec.stress.grid import run_grid
from lora_spec.stress.study_grid import study_grid


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    settings, measured = args.settings, read_measured(args.measured, tier=args.tier)
    grid = study_grid(
        settings,
        cost=read_step_costs(args.step_cost, tier=args.tier),
        acceptance=rates_by_adapter(measured.payload["adapters"]),
        expected=rates_by_adapter(read_predictions(args.predictions, tier=args.tier).payload["predictions"]),
        policy=read_policy(args.policy, tier=args.tier),
    )
    cells = list(run_grid(grid, args.state, threads=args.threads))
    write_stress(
        args.output,
        args.figure_table,
        payload=stress_payload(cells, level=settings["level"], source="simulated", setup=settings["setup"]),
        evidence=measured.evidence,
        tier=args.tier,
        provenance=collect_provenance(config=settings, seed=settings["traffic"]["seeds"][0]),
    )


parser = argparse.ArgumentParser(description=__doc__)
for flag in ("--step-cost", "--measured", "--predictions", "--policy", "--output", "--figure-table"):
    parser.add_argument(flag, type=Path, required=True)
parser.add_argument("--state", type=Path, required=True, help="folder where finished cells survive an interrupted run")
add_json_flag(parser, "--settings", SimulationSettings, help="traffic, baselines, engine, ranks, level, setup, JSON")
parser.add_argument("--threads", type=positive_count, default=1, help="processes at once (default: %(default)s)")
parser.add_argument("--tier", required=True)

if __name__ == "__main__":
    run_script(parser, main)
