"""What any predictor from weights must beat: guesses that a line of code makes. Each sees a little, and says what.

Knows nothing of the predictors that it is held against.
"""

from lora_spec.predictors.nulls.registry import NULLS, held_out_by_null

__all__ = ["NULLS", "held_out_by_null"]
