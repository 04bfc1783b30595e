"""Fit step time against depth and batch size."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.cli.settings_flags import CostFitSettings, EngineNames
from lora_spec.cost_model import fit_cost_model
from lora_spec.measurement.payload import read_step_times
from lora_spec.measurement.record_checks import check_engine
from lora_spec.provenance import collect_provenance
from lora_spec.results import naming, write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    measured, settings = read_step_times(args.step_times, tier=args.tier), args.settings
    check_engine(measured.engine, args.engine, what=str(args.step_times))
    with naming(args.step_times):
        model = fit_cost_model(
            measured.cells,
            num_draws=settings["num_uncertainty_draws"],
            seed=settings["seed"],
            engine=measured.engine,
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
add_json_flag(parser, "--settings", CostFitSettings, help="draws and seed of gate.yaml, JSON")
add_json_flag(parser, "--engine", EngineNames, help="engine and pair by the config, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
