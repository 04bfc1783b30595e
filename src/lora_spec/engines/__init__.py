"""Run or imitate a serving engine and report tokens, counters and step times. Knows nothing of what they are for."""

from lora_spec.engines.base import (
    AdapterRef,
    Completion,
    CounterWindow,
    DecodeTiming,
    Engine,
    GenerationRequest,
    MatchReplayer,
    ReplayedSteps,
    Replayer,
    Trajectory,
)
from lora_spec.engines.registry import open_engine, open_replayer

__all__ = [
    "AdapterRef",
    "Completion",
    "CounterWindow",
    "DecodeTiming",
    "Engine",
    "GenerationRequest",
    "MatchReplayer",
    "ReplayedSteps",
    "Replayer",
    "Trajectory",
    "open_engine",
    "open_replayer",
]
