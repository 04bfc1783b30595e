"""What scripts write of simulated stress runs."""

from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.plots.context import WATERMARK
from lora_spec.plots.registry import get_figure
from lora_spec.plots.saving import csv_bytes, save_figure
from lora_spec.plots.stress_rows import serving_stress_table
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_bytes_atomically, write_result
from lora_spec.stress.comparison import stress_payload
from lora_spec.stress.grid import run_grid
from lora_spec.stress.smoke import TRAFFIC, smoke_grid

_LEVEL = 0.9
_SEED = 0


def write_smoke_stress(folder: Path, *, threads: int) -> None:
    """Write a result on made-up numbers, its table and its figure, all marked as no evidence."""
    tell(f"{WATERMARK}: adapters, costs and traffic are made up")
    cells = list(run_grid(smoke_grid(seed=_SEED), folder / "cells", threads=threads))
    setup = "simulated engine, made-up step costs and adapters"
    payload = stress_payload(cells, level=_LEVEL, source="simulated", setup=setup)
    write_result(
        folder / "serving_stress.json",
        kind="serving_stress",
        evidence="synthetic-smoke",
        tier="smoke",
        provenance=collect_provenance(config={"traffic": TRAFFIC}, seed=_SEED),
        payload=payload,
    )
    table = serving_stress_table(payload, tier="smoke", evidence="synthetic-smoke")
    write_bytes_atomically(folder / "serving_stress.csv", csv_bytes(table))
    spec = get_figure("serving_stress")
    save_figure(spec.draw(table), table, folder / spec.stem)
