"""Write the verdict table for the terminal and for the report."""

import argparse
from pathlib import Path

from lora_spec.cli.script import file_stem, run_script
from lora_spec.plots.schemas import VERDICT_TABLE
from lora_spec.plots.verdict_table import save_verdict_table


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    save_verdict_table(VERDICT_TABLE.read_csv(args.table), args.stem)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--table", type=Path, required=True, help="verdict table, CSV")
parser.add_argument("--stem", type=file_stem, required=True, help="path of the outputs without their endings")

if __name__ == "__main__":
    run_script(parser, main)
