"""The calibration probe of one adapter: the adapted target writes a few texts, and three readers read them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from lora_spec.calibration_record import CalibrationPrompt, PartCost
from lora_spec.engines import AdapterRef, Engine, Trajectory
from lora_spec.engines.stopwatch import Stopwatch
from lora_spec.measurement.acceptance import Prompt
from lora_spec.measurement.calibration import calibration_prompt, check_readers
from lora_spec.measurement.trajectories import record_trajectories


class Reader(Protocol):
    """Base, adapted target and drafter as readers (:class:`lora_spec.engines.text_reader.ComparingReader`)."""

    def reload_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Read with another adapted target from now on."""

    def read(self, trajectory: Trajectory, watch: Stopwatch) -> Mapping[str, tuple[float, ...]]:
        """Return every signal at every output and overrun position."""


class CalibrationProbe:
    """Probes adapters one after another with one engine and one set of readers.

    Parameters
    ----------
    engine
        An engine of the target, without LoRA and without a drafter: adapters are merged into its weights.
    weights_of
        Weights of the target with an adapter merged.
    max_depth
        Deepest K at which the drafter's acceptance is counted.
    """

    def __init__(
        self,
        engine: Engine,
        reader: Reader,
        *,
        weights_of: Callable[[AdapterRef], Iterable[tuple[str, Any]]],
        max_depth: int,
    ) -> None:
        self._engine = engine
        self._reader = reader
        self._weights_of = weights_of
        self._max_depth = max_depth

    def run(
        self, adapter: AdapterRef, prompts: Sequence[Prompt], *, max_tokens: int
    ) -> tuple[tuple[CalibrationPrompt, ...], dict[str, PartCost]]:
        """Return what was seen along the adapted target's own greedy texts, and the seconds of each part.

        Raises
        ------
        MeasurementError
            A prompt was cut, a request failed, or the readers do not have the weights that wrote the texts.
        """
        watch = Stopwatch()
        with watch.part("merge"):
            # Merged twice, so that no third copy of a large target is held.
            self._engine.reload_weights(self._weights_of(adapter))
            self._reader.reload_weights(self._weights_of(adapter))
        with watch.part("trajectories"):
            # The adapter is in the weights: a request that named it would be served twice.
            texts = record_trajectories(
                self._engine, prompts, adapter=None, max_tokens=max_tokens, num_overrun_tokens=self._max_depth
            )
        found = tuple(
            calibration_prompt(text, self._reader.read(text, watch), max_depth=self._max_depth) for text in texts
        )
        check_readers(found, adapter.name, has_update=adapter.has_update)
        return found, watch.cost_by_part()
