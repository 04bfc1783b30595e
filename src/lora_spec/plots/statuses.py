"""One colour, letter and wording per status of a cell of the composability matrix. Knows nothing of drawing.

``replaced`` is a cell that works with another setting than the one asked for, ``unjudged`` one that ran while nothing
could tell whether its output is right. The order is from best to worst: where
several cells share a place, the worst is shown.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class StatusStyle:
    """How one status looks: colour (hex), colour of the letter on it, letter and wording."""

    color: str
    ink: str
    letter: str
    label: str


STATUS_STYLES = {
    "works": StatusStyle("#009E73", "white", "W", "W works"),
    "replaced": StatusStyle("#9AD3F0", "black", "S", "S works, setting silently replaced"),
    "unjudged": StatusStyle("#D6E8B0", "black", "U", "U runs, output not judged"),
    "refused": StatusStyle("#F0C040", "black", "R", "R refused"),
    "timeout": StatusStyle("#7B4BA0", "white", "T", "T no end in time"),
    "crashed": StatusStyle("#333333", "white", "C", "C crashed"),
    "wrong": StatusStyle("#B03A00", "white", "X", "X wrong output or counters"),
}
"""Measured statuses, best first."""

UNMEASURED = ("unmeasured", "conceptual", "meaningless")
"""What a place without any measured cell can be; drawn empty, hatched, and crossed out."""
