"""One colour, marker and wording per action, the same in every figure and table. Knows nothing of drawing.

Green and amber are Okabe and Ito's; red and the grey of abstain are darkened until every pair stays apart for
readers who do not see red or green, which a test checks.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ActionStyle:
    """How one action looks everywhere: colour (hex), marker and wording."""

    color: str
    marker: str
    label: str


ACTION_STYLES = {
    "green": ActionStyle("#009E73", "o", "green: speculate as today"),
    "amber": ActionStyle("#E69F00", "^", "amber: shorter depth"),
    "red": ActionStyle("#B03A00", "s", "red: speculation off"),
    "abstain": ActionStyle("#4D4D4D", "X", "abstain: manual review"),
}
