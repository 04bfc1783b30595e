"""Stress policies with traffic of many adapters.

--smoke-test tries the simulator on made-up adapters, costs and traffic, without an engine and without any measurement:
what it writes says so and is no evidence.
"""

import argparse
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import positive_count, run_script
from lora_spec.plots.context import WATERMARK
from lora_spec.plots.registry import get_figure
from lora_spec.plots.saving import csv_bytes, save_figure
from lora_spec.plots.stress_rows import serving_stress_table
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_bytes_atomically, write_result
from lora_spec.stress.comparison import stress_payload
from lora_spec.stress.grid import run_grid
from lora_spec.stress.smoke import TRAFFIC, smoke_grid

LEVEL = 0.9
SEED = 0


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    tell(f"{WATERMARK}: adapters, costs and traffic are made up")
    grid = smoke_grid(seed=SEED)
    cells = list(run_grid(grid, args.output_dir / "cells", threads=args.threads))
    setup = "simulated engine, made-up step costs and adapters"
    payload = stress_payload(cells, level=LEVEL, source="simulated", setup=setup)
    write_result(
        args.output_dir / "serving_stress.json",
        kind="serving_stress",
        evidence="synthetic-smoke",
        tier="smoke",
        provenance=collect_provenance(config={"traffic": TRAFFIC}, seed=SEED),
        payload=payload,
    )
    table = serving_stress_table(payload, tier="smoke", evidence="synthetic-smoke")
    write_bytes_atomically(args.output_dir / "serving_stress.csv", csv_bytes(table))
    spec = get_figure("serving_stress")
    save_figure(spec.draw(table), table, args.output_dir / spec.stem)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--smoke-test", action="store_true", required=True, help="made-up numbers; needs --output-dir only")
parser.add_argument("--threads", type=positive_count, default=1, help="processes at once (default: %(default)s)")
parser.add_argument("--output-dir", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
