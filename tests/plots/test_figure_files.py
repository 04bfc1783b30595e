"""Files of a figure: all three, the same bytes each time, and nothing half-written."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import frames
import pandas as pd
import pytest

from lora_spec.plots import saving
from lora_spec.plots.registry import FIGURES
from lora_spec.plots.saving import save_figure

_DRAW = """
import hashlib, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import frames
from lora_spec.plots.registry import FIGURES
from lora_spec.plots.saving import save_figure
frame = frames.predicted_vs_measured()
for path in save_figure(FIGURES["predicted_vs_measured"].draw(frame), frame, Path(sys.argv[2])):
    print(hashlib.sha256(path.read_bytes()).hexdigest())
"""


def test_a_figure_is_a_pdf_a_png_and_a_csv(drawn_figure):
    stem, paths = drawn_figure.spec.stem, drawn_figure.paths
    assert [path.name for path in paths] == [f"{stem}.pdf", f"{stem}.png", f"{stem}.csv"]
    assert [path.read_bytes()[:4] for path in paths[:2]] == [b"%PDF", b"\x89PNG"]
    assert sorted(path.name for path in paths[0].parent.iterdir()) == sorted(path.name for path in paths)


def test_the_csv_beside_a_figure_redraws_it(drawn_figure, tmp_path):
    schema = drawn_figure.spec.schema
    again = schema.read_csv(drawn_figure.paths[2])
    pd.testing.assert_frame_equal(again, schema.check(drawn_figure.frame), check_exact=True)
    redrawn = save_figure(drawn_figure.spec.draw(again), again, tmp_path / "again")
    assert [path.read_bytes() for path in redrawn[:2]] == [path.read_bytes() for path in drawn_figure.paths[:2]]


def test_two_saves_of_one_figure_are_equal(drawn_figure, tmp_path):
    again = save_figure(drawn_figure.fig, drawn_figure.frame, tmp_path / "again")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in drawn_figure.paths]


def test_bytes_depend_on_neither_hash_seed_nor_clock_nor_user_style(tmp_path):
    digests = set()
    for seed in ("1", "2"):
        home = tmp_path / seed
        home.mkdir()
        (home / "matplotlibrc").write_text(f"lines.linewidth: {seed}\nfont.size: 1{seed}\n")
        done = subprocess.run(
            [sys.executable, "-c", _DRAW, str(Path(frames.__file__).parent), str(home / "figure")],
            env={**os.environ, "PYTHONHASHSEED": seed, "MATPLOTLIBRC": str(home), "SOURCE_DATE_EPOCH": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(done.stdout)
    assert len(digests) == 1
    assert hashlib.sha256((tmp_path / "1" / "figure.csv").read_bytes()).hexdigest() in digests.pop()


def test_nothing_is_written_when_one_format_fails(drawn_figure, tmp_path, monkeypatch):
    def fail(_: pd.DataFrame) -> bytes:
        raise RuntimeError("no table")

    monkeypatch.setattr(saving, "csv_bytes", fail)
    monkeypatch.setattr(saving, "_render", lambda *_: b"picture")
    with pytest.raises(RuntimeError, match="no table"):
        save_figure(drawn_figure.fig, drawn_figure.frame, tmp_path / "figure")
    assert list(tmp_path.iterdir()) == []


def test_fonts_in_a_pdf_are_truetype(drawn_figure):
    pdf = drawn_figure.paths[0].read_bytes()
    assert b"/Type3" not in pdf
    assert b"/CIDFontType2" in pdf


def test_every_figure_has_its_caption_in_the_report():
    report = Path(__file__).parents[2] / "report"
    assert [spec.stem for spec in FIGURES.values() if f'"{spec.stem}"' not in (report / "figure.rst").read_text()] == []
