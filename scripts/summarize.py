"""Print a run's verdict table, where its figures and report are, and how long it took."""

import argparse
import time
from pathlib import Path

from lora_spec.cli.output import say
from lora_spec.cli.script import run_script
from lora_spec.plots.schemas import VERDICT_TABLE
from lora_spec.plots.verdict_table import verdict_table


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    folder = Path("results") / args.run
    say(verdict_table(VERDICT_TABLE.read_csv(folder / "verdicts.csv")))
    say("")
    for figure in sorted((folder / "figures").glob("*.pdf")):
        say(f"figure    {figure}  (beside it .png, its table .csv, its caption .txt)")
    for name, path in (
        ("verdicts", folder / "verdicts"),
        ("table", folder / "verdicts.html"),
        ("report", folder / "report.html"),
    ):
        if path.exists():
            say(f"{name:9} {path}")
    if args.started is not None:
        minutes, seconds = divmod(int(time.time()) - args.started, 60)
        say(f"took      {minutes} min {seconds:02d} s")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--run", required=True, help="folder below results/, such as mini")
parser.add_argument("--started", type=int, help="when the run began, seconds since the epoch")

if __name__ == "__main__":
    run_script(parser, main)
