"""Draw one figure from its table: PDF, PNG, and the table as CSV and the caption as text beside them."""

import argparse
from pathlib import Path

from lora_spec.cli.script import run_script
from lora_spec.plots.captions import caption_of
from lora_spec.plots.registry import get_figure
from lora_spec.plots.saving import save_figure
from lora_spec.results import write_bytes_atomically


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    spec = get_figure(args.figure)
    table = spec.schema.read_csv(args.table)
    caption = args.captions and caption_of(args.captions.read_text(encoding="utf-8"), spec.stem)
    save_figure(spec.draw(table), table, args.output_dir / spec.stem)
    if caption:
        write_bytes_atomically(args.output_dir / f"{spec.stem}.txt", caption.encode())


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--figure", required=True, help="name of the figure, such as paired_effect")
parser.add_argument("--table", type=Path, required=True, help="its table, CSV")
parser.add_argument("--captions", type=Path, help="file with all captions (report/figure.rst); none: no caption")
parser.add_argument("--output-dir", type=Path, required=True, help="folder of the figure, its table and its caption")

if __name__ == "__main__":
    run_script(parser, main)
