"""Where a script writes when a person runs it and names no place: one folder per tier, away from what rules make."""

from pathlib import Path


def by_hand(tier: str, step: str) -> Path:
    """Return ``results/<tier>/by_hand/<step>``: no rule has an output there, so no run takes it for its own."""
    return Path("results") / tier / "by_hand" / step
