"""Hold a tier's fresh verdicts against those of its shipped records: PASS or DIFF per adapter."""

import argparse
import sys
from pathlib import Path

from lora_spec.cli.output import say
from lora_spec.cli.script import EXIT_FAILED_RUN, run_script
from lora_spec.plots.comparison import compare_verdicts, describe_processors
from lora_spec.plots.schemas import VERDICT_TABLE


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    fresh, shipped = (VERDICT_TABLE.read_csv(Path("results") / run / "verdicts.csv") for run in args.runs)
    lines = compare_verdicts(fresh, shipped)
    say(describe_processors(fresh, shipped))
    for line in lines:
        say(f"{'PASS' if line.is_equal else 'DIFF'}  {line.adapter:20} {line.text}")
    if not all(line.is_equal for line in lines):
        sys.exit(EXIT_FAILED_RUN)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--runs", nargs=2, required=True, metavar=("FRESH", "SHIPPED"), help="two folders below results/")

if __name__ == "__main__":
    run_script(parser, main)
