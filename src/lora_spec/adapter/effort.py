"""What the evaluation of a table of patterns may cost, and how it says that it cost too much."""


class NotEvaluableError(Exception):
    """The pattern may be sound, but this engine cannot or will not evaluate it."""


class Effort:
    """What the patterns of one table may cost together, however many they are."""

    def __init__(self, *, states: int = 50_000, steps: int = 400_000, characters: int = 4_000_000) -> None:
        self.states = states
        self.steps = steps
        self.characters = characters

    def spend(self, what: str, amount: int) -> None:
        """Take from what is left; raise NotEvaluableError where it is too little."""
        left = getattr(self, what) - amount
        setattr(self, what, left)
        if left < 0:
            raise NotEvaluableError(f"the patterns need too many {what}")
