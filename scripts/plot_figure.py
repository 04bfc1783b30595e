"""Draw one figure from its table: PDF, PNG and the table as CSV beside them."""

import argparse
from pathlib import Path

from lora_spec.cli.script import run_script
from lora_spec.plots.registry import get_figure
from lora_spec.plots.saving import save_figure


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    spec = get_figure(args.figure)
    table = spec.schema.read_csv(args.table)
    save_figure(spec.draw(table), table, args.output_dir / spec.stem)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--figure", required=True, help="name of the figure, such as paired_effect")
parser.add_argument("--table", type=Path, required=True, help="its table, CSV")
parser.add_argument("--output-dir", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
