"""Put several runs of one timing plan together, where one run's trials are too few for a noisy machine."""

import argparse
from pathlib import Path

from lora_spec.cli.script import run_script
from lora_spec.measurement.pooled_step_times import pool_step_times
from lora_spec.results import write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    payload, provenance = pool_step_times(args.step_times, tier=args.tier)
    told = {"kind": "step_time_cells", "evidence": "measured", "tier": args.tier}
    write_result(args.output, payload=payload, provenance=provenance, **told)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--step-times", type=Path, nargs="+", required=True, help="runs of the same plan and engine")
parser.add_argument("--tier", required=True)
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
