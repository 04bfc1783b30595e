"""Read a text with the base target, the adapted target and the drafter, and compare them at every position.

One text after the other: short texts fill the cores as well as a padded batch does, and only one text's logits (tokens
x vocabulary, three times) are held at a time.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lora_spec.engines.base import Trajectory
from lora_spec.engines.divergence import compare_readers
from lora_spec.engines.replay import TransformersReplayer
from lora_spec.engines.stopwatch import Stopwatch

if TYPE_CHECKING:
    from torch import Tensor


class LogitsReader(TransformersReplayer):
    """A model in Hugging Face format that gives its logits along a text; options are those of the replayer."""

    def logits(self, trajectory: Trajectory) -> "Tensor":
        """Return what each output and overrun token is chosen from, shape ``(num_positions, vocab_size)``."""
        import torch

        read = trajectory.output_token_ids + trajectory.overrun_token_ids
        # The last token is read by nobody: nothing is chosen after it.
        ids = torch.tensor([(trajectory.prompt_token_ids + read)[:-1]])
        with torch.inference_mode():
            return self._model(input_ids=ids, use_cache=False, logits_to_keep=len(read)).logits[0]


class ComparingReader:
    """The three readers of the calibration probe.

    Parameters
    ----------
    target, drafter
        Model folders. The target is held twice: as it is, and with an adapter merged.
    dtype, num_threads
        As of :class:`~lora_spec.engines.replay.TransformersReplayer`.
    """

    def __init__(self, target: str, drafter: str, *, dtype: str = "float32", num_threads: int | None = None) -> None:
        options: dict[str, Any] = {"dtype": dtype, "num_threads": num_threads}
        self._base = LogitsReader(target, **options)
        self._adapted = LogitsReader(target, **options)
        self._drafter = LogitsReader(drafter, **options)

    def reload_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Put an adapted target's weights into the adapted reader: (name, tensor), as in the target's checkpoint."""
        self._adapted.reload_weights(weights)

    def read(self, trajectory: Trajectory, watch: Stopwatch) -> dict[str, tuple[float, ...]]:
        """Return the signals at every output and overrun position; the time of each part goes to the stopwatch."""
        import torch

        with watch.part("adapted_forward"):
            adapted = self._adapted.logits(trajectory)
        with watch.part("base_forward"):
            base = self._base.logits(trajectory)
        with watch.part("drafter_forward"):
            drafter = self._drafter.logits(trajectory)
        with watch.part("comparison"), torch.inference_mode():
            tokens = trajectory.output_token_ids + trajectory.overrun_token_ids
            return compare_readers(adapted, base, drafter, tokens)
