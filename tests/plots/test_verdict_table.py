"""The verdict table for the terminal and for the report."""

import os
import subprocess
import sys
from html.parser import HTMLParser

import frames
import pytest

from lora_spec.errors import ResultError
from lora_spec.plots.context import WATERMARK
from lora_spec.plots.schemas import VERDICT_TABLE
from lora_spec.plots.verdict_table import save_verdict_table, verdict_table, verdict_table_html


class _Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self._is_in_cell = False

    def handle_starttag(self, tag, attrs):
        self._is_in_cell = tag == "td"

    def handle_data(self, data):
        if self._is_in_cell:
            self.cells.append(data)


def test_each_adapter_has_one_line_with_both_verdicts():
    lines = verdict_table(frames.verdicts()).splitlines()
    (line,) = [line for line in lines if line.startswith("python-code")]
    assert line.split() == [
        "python-code",
        "benign",
        "2.08",
        "[2.02,",
        "2.15]",
        "2.15",
        "amber",
        "K=2",
        "1.24x",
        "[1.14,",
        "1.34]",
        "K=2",
        "abstain",
        "[1]",
    ]


def test_columns_are_aligned():
    lines = verdict_table(frames.verdicts()).splitlines()
    starts = [
        index for index, char in enumerate(lines[1]) if char == "-" and (index == 0 or lines[1][index - 1] == " ")
    ]
    for line in (lines[0], *lines[2:8]):
        assert all(line[start] != " " and (start == 0 or line[start - 1] == " ") for start in starts)


def test_verdicts_after_a_probe_have_a_column_only_where_there_are_any():
    frame = frames.verdicts()
    probed = frame.assign(probed_action=["red", *[None] * (len(frame) - 1)])
    for render in (verdict_table, verdict_table_html):
        assert "with a probe" not in render(frame)
        assert "with a probe" in render(probed)
    (line,) = [line for line in verdict_table(probed).splitlines() if line.startswith(frame["adapter"].iloc[0])]
    assert line.split()[-3:] == ["abstain", "red", "[1]"]


def test_what_is_missing_is_a_dash():
    (line,) = [line for line in verdict_table(frames.verdicts()).splitlines() if line.startswith("every-word")]
    assert line.split() == ["every-word-prefixed", "aggressive", "-", "-", "abstain", "-", "abstain", "[1]"]


def test_a_reason_shared_by_all_is_told_once_and_wrapped():
    text = verdict_table(frames.verdicts(), width=60)
    assert text.count("R_INTERVAL_TOO_WIDE") == 1
    notes = text[text.index("\n[1]") :].split("\n\n")[0].strip().splitlines()
    assert len(notes) > 1
    assert max(map(len, notes)) <= 60


def test_of_many_reasons_each_kind_is_told_once_with_its_number_of_adapters():
    frame = frames.verdicts(20)
    codes = ["R_TOO_DOUBTFUL"] * 15 + ["R_OUT_OF_DISTRIBUTION"] * 5
    text = verdict_table(frame.assign(reason=[f"at {i} %" for i in range(20)], reason_code=codes))
    notes = text[text.index("\n[1]") :].split("\n\n")[0].strip().splitlines()
    first, sixteenth = frame["adapter"].iloc[[0, 15]]
    assert notes == [
        f"[1] R_TOO_DOUBTFUL, such as for {first}: at 0 % (15 adapters)",
        f"[2] R_OUT_OF_DISTRIBUTION, such as for {sixteenth}: at 15 % (5 adapters)",
    ]


def test_the_table_tells_its_context():
    text = verdict_table(frames.verdicts())
    for part in (
        "tier mini",
        "evidence: measured",
        "n = 6 adapters",
        "90 % intervals",
        "at 89 % at least",
        "avx512f",
        frames.SETUP,
    ):
        assert part in text
        assert part in verdict_table_html(frames.verdicts())


@pytest.mark.parametrize("render", [verdict_table, verdict_table_html])
def test_synthetic_verdicts_are_marked(render):
    assert WATERMARK in render(frames.verdicts(evidence="synthetic-smoke"))
    assert WATERMARK not in render(frames.verdicts())


def test_names_can_neither_run_in_a_terminal_nor_in_a_page():
    frame = frames.verdicts().replace({"adapter": {"french": "\x1b[2J<script>x</script>"}})
    assert "\x1b" not in verdict_table(frame)
    page = verdict_table_html(frame)
    assert "<script>" not in page
    parser = _Cells()
    parser.feed(page)
    assert r"\x1b[2J<script>x</script>" in parser.cells


def test_three_files_are_written_and_the_csv_reads_back(tmp_path):
    frame = frames.verdicts()
    paths = save_verdict_table(frame, tmp_path / "verdicts")
    assert [path.name for path in paths] == ["verdicts.txt", "verdicts.html", "verdicts.csv"]
    assert paths[0].read_text() == verdict_table(frame) + "\n"
    assert VERDICT_TABLE.read_csv(paths[2]).equals(VERDICT_TABLE.check(frame))


def test_a_missing_column_is_refused():
    with pytest.raises(ResultError, match="lacks reason"):
        verdict_table(frames.verdicts().drop(columns="reason"))


def test_the_table_needs_no_matplotlib():
    code = "import sys, lora_spec.plots.verdict_table; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=False).returncode == 0
