"""Fleets for the tests of the fleet page, with names and reasons that try to break out of it."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "gate"))

from fleets import POLICY, made
from hand_made import SETTINGS, cost_model

from lora_spec.gate.fleet_policy import fleet_policy
from lora_spec.gate.pools import plan_pools
from lora_spec.plots.fleet_page import Fleet, fleet_page
from lora_spec.records import Interval

HOSTILE = [
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=2>",
    '"><svg onload=window.pwned=3>',
    "' onmouseover='window.pwned=4",
    "</title></style></script><script>window.pwned=5</script>",
    "<a href=javascript:window.pwned=6>click</a>",
    "<iframe srcdoc='<script>parent.pwned=7</script>'></iframe>",
    "\u202egnp.live\u2066",
    "&lt;b&gt;&amp;",
    "new\nline\ttab\x1b[31m",
    "--><!--",
    "{{7*7}}${7*7}",
]
ACTIONS = {"green": (3, 3), "amber": (1, 0), "red": (0, 0), "abstain": (None, None)}


def verdicts_of(names, reasons=None):
    """Return a verdict per name: the four actions in turn, acceptance falling with the place."""
    found = []
    for place, name in enumerate(names):
        action = list(ACTIONS)[place % 4]
        middle = 1 + 3 * (place + 1) / (len(names) + 1)
        told = (("R_FIRST", f"first reason of {name}"), ("R_SECOND", f"second of {name}"))
        found.append(
            made(
                name,
                ACTIONS[action],
                action=action,
                acceptance_length=Interval(middle, max(1.0, middle - 0.2), middle + 0.1, 0.9),
                speedup=None if action == "abstain" else Interval(middle / 1.6, 0.1, 3.0, 0.89),
                mode="measured" if place % 2 else "checkpoint_only",
                reasons=told if reasons is None else reasons,
            )
        )
    return found


def page_of(verdicts, **fields) -> str:
    """Return the page of a fleet."""
    model = cost_model()
    payload = fleet_policy(verdicts, model, settings=SETTINGS, policy=POLICY)
    pools = plan_pools(verdicts, payload, settings=SETTINGS, is_hot_adapter_merged=True)
    how = {"headline_batch_size": 1, "tier": "mini", "evidence": "measured"} | fields
    return fleet_page(Fleet(verdicts, payload, pools, model, SETTINGS, **how))
