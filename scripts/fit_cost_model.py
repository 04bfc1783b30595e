"""Fit step time against depth and batch size."""

import argparse
from pathlib import Path

from lora_spec.cli.script import json_flag, run_script
from lora_spec.cost_model import fit_cost_model
from lora_spec.joins import read_tier_result
from lora_spec.measurement.record_checks import check_engine
from lora_spec.provenance import collect_provenance
from lora_spec.records import StepTimeCell
from lora_spec.results import write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    measured = read_tier_result(args.step_times, "step_time_cells", tier=args.tier)
    check_engine(measured.payload["engine"], args.engine, what=str(args.step_times))
    cells = [StepTimeCell.from_dict(cell) for cell in measured.payload["cells"]]
    settings = args.settings
    model = fit_cost_model(
        cells,
        num_draws=settings["num_uncertainty_draws"],
        seed=settings["seed"],
        engine=measured.payload["engine"],
    )
    write_result(
        args.output,
        kind="cost_model",
        evidence=measured.evidence,
        tier=args.tier,
        provenance=collect_provenance(config=settings, seed=settings["seed"]),
        payload=model.to_dict(),
    )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--step-times", type=Path, required=True)
parser.add_argument("--settings", type=json_flag, required=True, help="level, draws and seed of gate.yaml, JSON")
parser.add_argument("--engine", type=json_flag, required=True, help="engine and pair by the config, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
