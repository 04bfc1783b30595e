"""Decides what to do with an adapter: the only room that sees both its acceptance and its cost.

Knows nothing of how either was obtained.
"""

from lora_spec.gate.decide import abstain, decide
from lora_spec.gate.decision_map import MapCell, decision_map
from lora_spec.gate.settings import GateSettings, gate_settings

__all__ = ["GateSettings", "MapCell", "abstain", "decide", "decision_map", "gate_settings"]
