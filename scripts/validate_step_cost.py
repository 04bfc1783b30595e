"""Hold the fitted parts of a step against cells that were timed for validation alone, and say which bars are met."""

import argparse
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import run_script
from lora_spec.cost_model.payload import read_cost_model
from lora_spec.cost_model.step_payload import read_step_costs
from lora_spec.cost_model.step_validation import lengths_by_depth, validate_step_costs, verdict_lines
from lora_spec.measurement.cost_parts_payload import read_cost_parts
from lora_spec.measurement.payload import read_measured
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    timed = read_cost_parts(args.cost_parts, tier=args.tier)
    measured = read_measured(args.measured, tier=args.tier).payload
    payload = validate_step_costs(
        timed.cells_for("validation"),
        timed.loads_for("validation"),
        read_step_costs(args.step_cost, tier=args.tier),
        acceptance_lengths=lengths_by_depth([summary["estimate"] for summary in measured["adapters"]]),
        table=read_cost_model(args.cost_model, tier=args.tier),
    )
    for line in verdict_lines(payload):
        tell(line)
    write_result(
        args.output,
        kind="step_cost_validation",
        evidence=timed.evidence,
        tier=args.tier,
        provenance=collect_provenance(config={}, seed=0),
        payload=payload,
    )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--cost-parts", type=Path, required=True)
parser.add_argument("--step-cost", type=Path, required=True, help="fitted to the other cells of the same file")
parser.add_argument("--cost-model", type=Path, required=True, help="the gate's table, to tell how far the two differ")
parser.add_argument("--measured", type=Path, required=True, help="acceptance of the adapters there are")
parser.add_argument("--tier", required=True)
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
