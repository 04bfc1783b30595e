"""Writes a figure and its table side by side: the same input gives the same bytes. Knows nothing of what is drawn."""

import io
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from lora_spec.plots.style import house_style
from lora_spec.results import write_all_atomically

_METADATA = {"pdf": {"CreationDate": None, "ModDate": None}, "png": {"Software": None}}


def save_figure(fig: Figure, frame: pd.DataFrame, stem: Path) -> tuple[Path, ...]:
    """Write ``stem``.pdf, .png and .csv, each atomically, and return the three paths.

    Nothing is written before all three are rendered; no date enters a file.
    """
    contents = {kind: _render(fig, kind) for kind in _METADATA} | {"csv": csv_bytes(frame)}
    paths = {kind: stem.parent / f"{stem.name}.{kind}" for kind in contents}
    write_all_atomically({paths[kind]: data for kind, data in contents.items()})
    return tuple(paths.values())


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """Return a table as CSV whose floats read back exactly (shortest digits that round-trip)."""
    return frame.to_csv(index=False, lineterminator="\n").encode()


def _render(fig: Figure, kind: str) -> bytes:
    stream = io.BytesIO()
    with house_style():
        fig.savefig(stream, format=kind, metadata=_METADATA[kind])
    return stream.getvalue()
