"""The adapter simply run on the calibration prompts: what the other signals of a calibration probe must add to."""

from collections.abc import Sequence

from lora_spec.predictors.examples import TrainingExample
from lora_spec.predictors.nulls.base import Guess, check_columns


class DirectProbeNull:
    """See :class:`lora_spec.predictors.nulls.base.Null`; it learns nothing and costs what ``checkpoint_calib`` does."""

    sees = "the adapter's acceptance on the calibration prompts"
    orders_adapters = True

    def columns_at(self, depth: int) -> tuple[str, ...]:
        """Return the column of the depth."""
        return (f"calib_acceptance_length_{depth}",)

    def fit(self, examples: Sequence[TrainingExample], depth: int) -> Guess:
        """Return the adapter's own E_K on other prompts of its kind, as it was counted."""
        (column,) = self.columns_at(depth)

        def guess(example: TrainingExample) -> float:
            check_columns(example, [column])
            return float(example.columns.values[column])

        return guess
