"""The verdict table, measured and predicted side by side, for a terminal and for the report. Decides nothing."""

import html
import textwrap
from pathlib import Path

import pandas as pd

from lora_spec.plots.actions import ACTION_STYLES
from lora_spec.plots.context import WATERMARK, FigureContext, context_of
from lora_spec.plots.schemas import VERDICT_TABLE
from lora_spec.results import write_all_atomically

_HEADINGS = (
    "adapter",
    "stratum",
    "acceptance length",
    "base",
    "measured",
    "speedup",
    "predicted",
    "with a probe",
    "reason",
)
_PROBED = "with a probe"
_MISSING = "-"
_MOST_NOTES = 12
_CSS = """
body { font: 14px/1.4 sans-serif; margin: 1.5em; color: #222 }
table { border-collapse: collapse } th, td { padding: .3em .8em; text-align: left; border-bottom: 1px solid #ddd }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap }
.watermark { color: #c00; font-weight: bold } footer { margin-top: 1em; color: #555 }
"""


def verdict_table(frame: pd.DataFrame, *, width: int = 100) -> str:
    """Return the table as plain text, its reasons below it, wrapped to ``width``, then the context.

    Each distinct reason stands there once; of many, each kind does, in the words of the first adapter that has it.
    """
    checked = VERDICT_TABLE.check(frame)
    context = context_of(checked)
    headings = _headings(checked)
    cells = [_cells(row, headings) for _, row in checked.iterrows()]
    kinds, told = _kinds(checked, [row[-1] for row in cells])
    notes = {kind: f"[{index}]" for index, kind in enumerate(told, start=1)}
    rows = [headings, *((*row[:-1], notes[kind]) for row, kind in zip(cells, kinds, strict=True))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(headings))]
    lines = ["  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in rows]
    rule = "  ".join("-" * size for size in widths)
    explained = [
        textwrap.fill(f"{note} {told[kind]}", width, subsequent_indent=" " * (len(note) + 1))
        for kind, note in notes.items()
    ]
    footer = _footer(checked, context)
    return "\n".join([*_banner(context), lines[0], rule, *lines[1:], "", *explained, "", footer])


def _kinds(checked: pd.DataFrame, reasons: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return what every row's note is of, and what the notes say."""
    told = dict(zip(reasons, reasons, strict=True))
    if len(told) <= _MOST_NOTES:
        return reasons, told
    codes = [_MISSING if pd.isna(code) else code for code in checked["reason_code"]]
    found: dict[str, str] = {}
    for name, code, reason in zip(checked["adapter"], codes, reasons, strict=True):
        found.setdefault(code, f"{code}, such as for {name}: {reason} ({_adapters(codes.count(code))})")
    return codes, found


def verdict_table_html(frame: pd.DataFrame) -> str:
    """Return the table as one HTML page that needs no other file."""
    checked = VERDICT_TABLE.check(frame)
    context = context_of(checked)
    headings = _headings(checked)
    head = "".join(f"<th>{name}</th>" for name in headings)
    body = "\n".join(_html_row(row, headings) for _, row in checked.iterrows())
    banner = "".join(f'<p class="watermark">{line}</p>' for line in _banner(context))
    colors = "".join(f".{name} {{ border-left: .7em solid {style.color} }} " for name, style in ACTION_STYLES.items())
    footer = html.escape(_footer(checked, context)).replace("\n", "<br>")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Verdicts</title>'
        f"<style>{_CSS}{colors}</style>"
        f"</head><body>{banner}\n<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>\n"
        f"<footer>{footer}</footer></body></html>\n"
    )


def save_verdict_table(frame: pd.DataFrame, stem: Path) -> tuple[Path, ...]:
    """Write ``stem``.txt, .html and .csv, each atomically, and return the three paths."""
    table = VERDICT_TABLE.check(frame).to_csv(index=False, lineterminator="\n")
    contents = {"txt": verdict_table(frame) + "\n", "html": verdict_table_html(frame), "csv": table}
    paths = {ending: stem.parent / f"{stem.name}.{ending}" for ending in contents}
    write_all_atomically({paths[ending]: text.encode() for ending, text in contents.items()})
    return tuple(paths.values())


def _banner(context: FigureContext) -> list[str]:
    return [WATERMARK] if context.is_synthetic else []


def _number(value: object) -> str:
    return _MISSING if pd.isna(value) else f"{value:.2f}"


def _interval(lower: object, upper: object) -> str:
    return "" if pd.isna(lower) else f" [{_number(lower)}, {_number(upper)}]"


def _at_depth(depth: object) -> str:
    return "" if pd.isna(depth) else f" K={depth}"


def _speedup(row: pd.Series) -> str:
    if pd.isna(row["speedup"]):
        return _MISSING
    interval, depth = _interval(row["speedup_lower"], row["speedup_upper"]), row["speedup_num_speculative_tokens"]
    return f"{_number(row['speedup'])}x{interval}{_at_depth(depth)}"


def verdict_text(row: pd.Series) -> str:
    """Return a row's measured verdict in words: its action, and its depth if it has one."""
    return row["measured_action"] + _at_depth(row["measured_num_speculative_tokens"])


def _headings(checked: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns that are shown: that of probes only where any adapter was probed."""
    is_probed = checked["probed_action"].notna().any()
    return tuple(heading for heading in _HEADINGS if is_probed or heading != _PROBED)


def _cells(row: pd.Series, headings: tuple[str, ...]) -> tuple[str, ...]:
    """Return one adapter's cells as text; a missing value is a dash, never a number."""
    texts = (
        row["adapter"],
        row["stratum"],
        _number(row["acceptance_length"]) + _interval(row["lower"], row["upper"]),
        _number(row["base_acceptance_length"]),
        verdict_text(row),
        _speedup(row),
        *(_MISSING if pd.isna(row[name]) else row[name] for name in ("predicted_action", "probed_action", "reason")),
    )
    return tuple(text for heading, text in zip(_HEADINGS, texts, strict=True) if heading in headings)


def _footer(checked: pd.DataFrame, context: FigureContext) -> str:
    """Return the context with what the table alone needs: the level of the speedups, and on what they were timed."""
    lines = [context.footer(_count(checked))]
    if checked["speedup_level"].notna().any():
        lines.append(f"intervals of speedups hold at {100 * checked['speedup_level'].min():g} % at least")
    if checked["processor"].notna().any():
        lines.append(f"step times on a processor with {checked['processor'].iloc[0]}")
    return "\n".join(lines)


def _count(checked: pd.DataFrame) -> str:
    return f"n = {_adapters(len(checked))}"


def _adapters(count: int) -> str:
    return f"{count} adapter{'' if count == 1 else 's'}"


def _html_row(row: pd.Series, headings: tuple[str, ...]) -> str:
    classes = {"acceptance length": "number", "base": "number", "measured": row["measured_action"], "speedup": "number"}
    classes |= {"predicted": _class_of(row["predicted_action"]), _PROBED: _class_of(row["probed_action"])}
    cells = (
        f'<td class="{classes.get(heading, "")}">{html.escape(cell)}</td>'
        for heading, cell in zip(headings, _cells(row, headings), strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _class_of(action: object) -> str:
    return "" if pd.isna(action) else str(action)
