"""Compare the policies of a live stress, trial by trial on the same arrivals: the result and the table of figure 10."""

import argparse
from pathlib import Path

from lora_spec.cli.script import interval_level, run_script
from lora_spec.cli.stress_files import write_stress
from lora_spec.provenance import collect_provenance
from lora_spec.stress.live_summary import live_stress_payload
from lora_spec.stress.live_table import read_live


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    live = read_live(args.live, tier=args.tier)
    write_stress(
        args.output,
        args.figure_table,
        payload=live_stress_payload(live, level=args.level),
        evidence=live.result.evidence,
        tier=args.tier,
        provenance=collect_provenance(config={"level": args.level}, seed=None),
    )


parser = argparse.ArgumentParser(description=__doc__)
for flag in ("--live", "--output", "--figure-table"):
    parser.add_argument(flag, type=Path, required=True)
parser.add_argument("--level", type=interval_level, required=True, help="level of the intervals over trials")
parser.add_argument("--tier", required=True)

if __name__ == "__main__":
    run_script(parser, main)
