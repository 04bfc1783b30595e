"""Fit the parts of a step to the cells that were timed for it."""

import argparse
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.cli.settings_flags import CostFitSettings, EngineNames
from lora_spec.cost_model.step_fitting import fit_step_costs
from lora_spec.measurement.cost_parts_payload import read_cost_parts
from lora_spec.measurement.record_checks import check_engine
from lora_spec.provenance import collect_provenance
from lora_spec.results import naming, write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    timed, settings = read_cost_parts(args.cost_parts, tier=args.tier), args.settings
    check_engine(timed.engine, args.engine, what=str(args.cost_parts))
    with naming(args.cost_parts):
        model = fit_step_costs(
            timed.cells_for("fit"),
            timed.loads_for("fit"),
            num_draws=settings["num_uncertainty_draws"],
            seed=settings["seed"],
            engine=timed.engine,
        )
    for name, part in model.part_intervals().items():
        tell(f"{name} {part.estimate:.3f} [{part.lower:.3f}, {part.upper:.3f}] at level {part.level:g}")
    write_result(
        args.output,
        kind="step_cost",
        evidence=timed.evidence,
        tier=args.tier,
        provenance=collect_provenance(config=settings, seed=settings["seed"]),
        payload=model.to_dict(),
    )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--cost-parts", type=Path, required=True)
add_json_flag(parser, "--settings", CostFitSettings, help="draws and seed of gate.yaml, JSON")
add_json_flag(parser, "--engine", EngineNames, help="engine and pair by the config, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
