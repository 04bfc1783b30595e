"""Policies for the tests of the policy room."""

import json

LIVE = {
    "window_drafts": 100,
    "hysteresis": 0.05,
    "min_dwell_s": 10.0,
    "probe_interval_s": 60.0,
    "probe_drafts": 50,
    "num_standard_errors": 2.0,
}
LOADS = [
    {"max_batch_size": 2, "step_time_ratios": [1.0, 1.1, 1.25, 1.4]},
    {"max_batch_size": 8, "step_time_ratios": [1.0, 1.4, 1.9, 2.4]},
]


def payload(**changes):
    """Return a sound payload, with changes."""
    sound = {
        "max_num_speculative_tokens": 3,
        "loads": LOADS,
        "default": [3, 1],
        "adapters": {"sql": [1, 0], "json": 2},
        "live": LIVE,
    }
    return sound | changes


def policy_bytes(envelope=None, **changes):
    """Return the file of a payload."""
    whole = {"kind": "policy", "schema_version": "1", "payload": payload(**changes)} | (envelope or {})
    return json.dumps(whole).encode()
