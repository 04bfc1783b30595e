"""The fleet page: one HTML file with all verdicts, the policy's depths, the pools and the decision map.

It needs no other file and no network, and its content security policy forbids both, and any script or style but its
own: a text that got through unescaped would still do nothing. Names come from folders of others and are hostile until
escaped; every text goes through :func:`_text`.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from lora_spec.cost_model.model import CostModel
from lora_spec.gate.decision_map import decision_map
from lora_spec.gate.engine_choice import DraftingGain, gain_at
from lora_spec.gate.fleet_verdicts import FleetVerdict
from lora_spec.gate.gain_words import gain_words
from lora_spec.gate.pool_plan import NO_DRAFTER, ONE_ENGINE
from lora_spec.gate.pools import Pool, pool_of
from lora_spec.gate.settings import GateSettings
from lora_spec.gate.standing_length import standing_length
from lora_spec.plots.actions import ACTION_STYLES
from lora_spec.plots.fleet_map import MapPoint, fleet_map
from lora_spec.plots.fleet_page_script import FLEET_JS
from lora_spec.plots.fleet_page_style import FLEET_CSS
from lora_spec.printing import printable
from lora_spec.records import Evidence, Interval

_MISSING = "\N{EN DASH}"
_TIMES = "\N{MULTIPLICATION SIGN}"
_WATERMARK = '<p class="watermark">Made from synthetic values to try the software out: no evidence.</p>'
_MAP_STEPS = 200
_MOST_CHARACTERS = 4000
_SOURCES = {
    "measured": "measured",
    "checkpoint_only": "predicted, weights",
    "checkpoint_base": "predicted, weights and base",
    "checkpoint_calib": "predicted, probe",
}
# From what needs a person first to what needs nothing.
_ORDER = ("abstain", "red", "amber", "green")
# Heading, and how its column sorts; None: not at all.
_COLUMNS = (
    ("adapter", "text"),
    ("action", "number"),
    ("depth by load", "text"),
    ("acceptance length", "number"),
    ("speedup", "number"),
    ("verdict from", "text"),
    ("pool", "text"),
    ("reasons", None),
)


@dataclass(frozen=True)
class Fleet:
    """What the page shows; ``payload`` is that of ``policy.json``, ``off_tax`` and ``gains`` where measured."""

    verdicts: Sequence[FleetVerdict]
    payload: Mapping[str, Any]
    pools: Sequence[Pool]
    cost_model: CostModel
    settings: GateSettings
    headline_batch_size: float
    tier: str
    evidence: Evidence
    off_tax: Interval | None = None
    gains: Sequence[DraftingGain] = ()

    @property
    def gain(self) -> DraftingGain | None:
        """Return what drafting gains at the headline load."""
        return gain_at(self.gains, self.headline_batch_size)


def fleet_page(fleet: Fleet) -> str:
    """Return the whole page."""
    style, script = FLEET_CSS, FLEET_JS
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Fleet policy: {len(fleet.verdicts)} adapters</title><style>{style}</style></head><body>",
            *_head(fleet),
            "<h2>Decision map</h2>",
            *_map(fleet),
            "<h2>Adapters</h2>",
            *_filters(fleet),
            *_table(fleet),
            "<h2>Pools</h2>",
            *_pools(fleet),
            f"<script>{script}</script></body></html>\n",
        ]
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _text(value: object) -> str:
    """Return text that can stand in an element or a quoted attribute."""
    return escape(printable(value, _MOST_CHARACTERS), quote=True)


def _head(fleet: Fleet) -> list[str]:
    counts = {action: sum(v.action == action for v in fleet.verdicts) for action in _ORDER}
    standing = fleet.settings.standing_num_speculative_tokens
    items = [
        f'<li class="action {action}"><b>{number}</b> {ACTION_STYLES[action].label}</li>'
        for action, number in counts.items()
    ]
    context = next((v.context for v in fleet.verdicts if v.context), {})
    names = [context.get(key) for key in ("target_model", "draft_model", "engine")]
    told = " · ".join(_text(name) for name in names if isinstance(name, str))
    return [
        "<header><h1>Fleet policy</h1>",
        *([_WATERMARK] if fleet.evidence != "measured" else []),
        f'<p class="muted">{told}{" · " if told else ""}tier {_text(fleet.tier)} · headline load: '
        f"batch size {fleet.headline_batch_size:g} · standing depth K = {standing}</p>",
        f'<ul class="counts">{"".join(items)}</ul>',
        *_advice(fleet),
        "</header>",
    ]


def _advice(fleet: Fleet) -> list[str]:
    """Return which engine to start, where the gain of drafting is known: what most readers came for."""
    gain = fleet.gain
    if gain is None:
        return []
    engine = ONE_ENGINE if gain.is_drafter_worth_it else NO_DRAFTER
    told = _text(gain_words(gain, fleet.gains))
    return [f"<p><b>One engine for all: <code>sh pools.sh {engine}</code>.</b> {told[:1].upper()}{told[1:]}.</p>"]


def _map(fleet: Fleet) -> list[str]:
    alphas = [step / _MAP_STEPS for step in range(_MAP_STEPS + 1)]
    loads = [load["max_batch_size"] for load in fleet.payload["loads"]]
    cells = decision_map(fleet.cost_model, fleet.settings, token_acceptance_probs=alphas, batch_sizes=loads)
    lengths = [standing_length(verdict, fleet.cost_model) for verdict in fleet.verdicts]
    points = [
        MapPoint(index, verdict.name, verdict.action, length)
        for index, (verdict, length) in enumerate(zip(fleet.verdicts, lengths, strict=True))
        if length is not None
    ]
    standing = fleet.settings.standing_num_speculative_tokens
    return [
        fleet_map(cells, points, standing=standing, headline=fleet.headline_batch_size),
        '<p class="muted">Ground: the best depth if every drafted token were equally likely to be accepted. Marks: the '
        "adapters and the verdict on each at the headline load, from its acceptance by position, so the two can "
        "differ. Lines: intervals.</p>",
    ]


def _filters(fleet: Fleet) -> list[str]:
    boxes = [
        f'<label><input type="checkbox" name="action" value="{action}" checked> {action}</label>' for action in _ORDER
    ]
    pools = [f'<option value="{pool.name}">{pool.name}</option>' for pool in fleet.pools if pool.adapters]
    return [
        '<form id="filters" role="search" class="screen">',
        '<label>Find <input type="search" id="search" autocomplete="off" placeholder="name, pool or reason"></label>',
        f"<fieldset><legend>Actions</legend>{''.join(boxes)}</fieldset>",
        f'<label>Pool <select id="pool"><option value="">all</option>{"".join(pools)}</select></label>',
        '<span id="status" role="status" aria-live="polite"></span></form>',
    ]


def _table(fleet: Fleet) -> list[str]:
    pools = pool_of(fleet.pools)
    sizes = ", ".join(str(load["max_batch_size"]) for load in fleet.payload["loads"])
    rows = [_row(fleet, verdict, index, pools[verdict.name]) for index, verdict in enumerate(fleet.verdicts)]
    return [
        '<div class="scroll" role="region" aria-label="Table of adapters" tabindex="0"><table id="fleet">',
        f"<caption>Depth by load: drafted tokens per step in batches up to {sizes} requests{_for_mix(fleet)}. "
        f"Acceptance length: tokens per step at the standing depth. Click a heading to sort.</caption>",
        f"<thead><tr>{''.join(_heading(*column) for column in _COLUMNS)}</tr></thead><tbody>",
        *rows,
        f'<tr class="none" hidden><td colspan="{len(_COLUMNS)}">No adapter matches.</td></tr></tbody></table></div>',
    ]


def _for_mix(fleet: Fleet) -> str:
    return ", chosen for the mix in one engine and never deeper than the verdict" if fleet.gains else ""


def _heading(name: str, kind: str | None) -> str:
    if kind is None:
        return f'<th scope="col">{name}</th>'
    mark = ' aria-sort="ascending"' if name == "adapter" else ""
    return f'<th scope="col" data-kind="{kind}"{mark}><button type="button">{name}</button></th>'


def _row(fleet: Fleet, verdict: FleetVerdict, index: int, pool: Pool) -> str:
    depths = " · ".join(map(str, fleet.payload["adapters"][verdict.name]))
    length = standing_length(verdict, fleet.cost_model)
    source = _SOURCES.get(verdict.mode, verdict.mode)
    depth = verdict.num_speculative_tokens
    action = verdict.action if depth is None else f"{verdict.action}, K={depth}" if depth else f"{verdict.action}, off"
    return (
        f'<tr data-i="{index}" data-action="{verdict.action}" data-pool="{pool.name}">'
        f'<th scope="row" data-v="{_text(verdict.name)}">{_text(verdict.name)}</th>'
        f'<td data-v="{_ORDER.index(verdict.action)}"><span class="action {verdict.action}">{action}</span></td>'
        f'<td class="number" data-v="{depths}">{depths}</td>'
        f'<td class="number" data-v="{_sortable(length)}">{_interval(length)}</td>'
        f'<td class="number" data-v="{_sortable(verdict.speedup)}">{_speedup(verdict)}</td>'
        f'<td data-v="{source}">{source}</td><td data-v="{pool.name}">{pool.name}</td>'
        f'<td class="reason">{_reasons(verdict)}</td></tr>'
    )


def _sortable(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.estimate:.6f}"


def _interval(interval: Interval | None, unit: str = "") -> str:
    if interval is None:
        return _MISSING
    ends = f"[{interval.lower:.2f}, {interval.upper:.2f}]"
    return f'{interval.estimate:.2f}{unit} <span class="ends">{ends}</span>'


def _speedup(verdict: FleetVerdict) -> str:
    if verdict.speedup is None:
        return _MISSING
    return f"{_interval(verdict.speedup, _TIMES)} K={verdict.context['num_speculative_tokens']}"


def _reasons(verdict: FleetVerdict) -> str:
    """Return the first reason, two lines of it until it is opened, with the others and all codes inside."""
    if not verdict.reasons:
        return _MISSING
    (code, message), *others = verdict.reasons
    items = "".join(f"<li>{_text(m)} <code>{_text(c)}</code></li>" for c, m in others)
    more = f" <b>+{len(others)}</b>" if others else ""
    return (
        f'<details><summary><span class="first">{_text(message)}</span>{more}</summary>'
        f"<p><code>{_text(code)}</code></p>{f'<ul>{items}</ul>' if items else ''}</details>"
    )


def _pools(fleet: Fleet) -> list[str]:
    rows = [
        f'<tr><th scope="row">{pool.name}</th><td class="number">{pool.num_speculative_tokens or "off"}</td>'
        f'<td class="number">{len(pool.adapters)}</td><td>{_purpose(pool)}</td></tr>'
        for pool in fleet.pools
    ]
    tax = fleet.off_tax
    told = "has not been measured" if tax is None else f"is {_interval(tax)} of a step"
    return [
        "<p>For engines without a depth per adapter. An engine that can draft and does not is slower than one that "
        f"cannot: this tax {told} here.</p>",
        '<div class="scroll"><table class="loads"><thead><tr><th scope="col">pool</th><th scope="col">depth</th>'
        f'<th scope="col">adapters</th><th scope="col">for</th></tr></thead><tbody>{"".join(rows)}</tbody>'
        "</table></div>",
        "<footer><p>Intervals of acceptance lengths hold at the level of their verdicts, those of speedups are by "
        "bounds. Command lines: pools.json and pools.sh beside this page.</p></footer>",
    ]


def _purpose(pool: Pool) -> str:
    if pool.is_merged:
        return "one hot adapter, merged into the base's weights"
    if pool.is_base_served:
        return "the base model and adapters without a verdict, too"
    return "no drafter in the engine" if not pool.num_speculative_tokens else "shorter drafts"
