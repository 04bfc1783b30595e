"""The drawing in the README shows the rules that there are, what they wait for, and which of them want a device."""

import re
from graphlib import TopologicalSorter
from html import unescape
from pathlib import Path

import pytest

PICTURE = Path(__file__).parents[2] / "docs/rule-graph.svg"
AGAIN = "draw it again: .venv/bin/python tools/draw_rule_graph.py"
pytestmark = pytest.mark.workflow


def all_behind(waits_for):
    """Return for each rule all that it waits for, directly or not."""
    found = {}
    for rule in TopologicalSorter(waits_for).static_order():
        nearest = waits_for.get(rule, set())
        found[rule] = nearest.union(*(found[one] for one in nearest))
    return found


def planned(plan):
    made_by = {path: job["rule"] for job in plan["jobs"].values() for path in (*job["outputs"], *job["folders"])}
    waits_for = {job["rule"]: set() for job in plan["jobs"].values()}
    for job in plan["jobs"].values():
        waits_for[job["rule"]] |= {made_by[path] for path in job["inputs"] if path in made_by} - {job["rule"]}
    return waits_for


def drawn():
    titles = [unescape(title) for title in re.findall(r"<title>(.*)</title>", PICTURE.read_text())]
    waits_for = {title: set() for title in titles[1:] if "->" not in title}
    for before, after in (title.split("->") for title in titles if "->" in title):
        waits_for[after].add(before)
    return waits_for


def test_the_drawing_holds_what_is_planned(plan_of):
    assert all_behind(drawn()) == all_behind(planned(plan_of("cpu"))), AGAIN


def test_the_rules_that_want_a_device_are_filled(plan_of):
    filled = re.findall(r'<title>(\w+)</title>\s*<path fill="#b7d7f0"', PICTURE.read_text())
    plan = plan_of("cpu")
    wants = {job["rule"] for job in plan["jobs"].values() if "gpu" in plan["rules"][job["rule"]]["resources"]}
    assert set(filled) == wants, AGAIN
