"""Simulate exactly the schedules of a live stress and say how far off the simulator is, and how it orders policies."""

import argparse
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import run_script
from lora_spec.cli.stress_files import rates_by_adapter, validation_lines
from lora_spec.cost_model.step_payload import read_step_costs
from lora_spec.measurement.payload import read_measured
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result
from lora_spec.stress.live_simulation import validate_on_live
from lora_spec.stress.live_table import read_live


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    live = read_live(args.live, tier=args.tier)
    measured = read_measured(args.measured, tier=args.tier).payload["adapters"]
    payload = validate_on_live(live, read_step_costs(args.step_cost, tier=args.tier), rates_by_adapter(measured))
    for line in validation_lines(payload):
        tell(line)
    write_result(
        args.output,
        kind="simulator_validation",
        evidence=live.result.evidence,
        tier=args.tier,
        provenance=collect_provenance(config={}, seed=None),
        payload=payload,
    )


parser = argparse.ArgumentParser(description=__doc__)
for flag in ("--live", "--step-cost", "--measured", "--output"):
    parser.add_argument(flag, type=Path, required=True)
parser.add_argument("--tier", required=True)

if __name__ == "__main__":
    run_script(parser, main)
