"""What a predictor learns from: one adapter's columns beside its measured counts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lora_spec.errors import PredictorError
from lora_spec.predictors.columns import ColumnSet, column_set_of
from lora_spec.records import AcceptanceCounts, AcceptanceRecord, Arm, PromptRecord


@dataclass(frozen=True)
class TrainingExample:
    """One adapter: guess on one side, truth on the other.

    ``counts_by_depth[K - 1]`` are the adapted arm's counts at depth K, pooled over prompts; ``base_counts_by_depth``
    those of the unadapted target on the same prompts. ``source`` names the family that splits leave out whole.
    """

    adapter: str
    adapter_sha256: str
    source: str
    columns: ColumnSet
    counts_by_depth: tuple[AcceptanceCounts, ...]
    base_counts_by_depth: tuple[AcceptanceCounts, ...]

    @property
    def max_depth(self) -> int:
        """Return the deepest K that was measured."""
        return len(self.counts_by_depth)


def _pooled(
    records: Iterable[PromptRecord], *, arm: Arm, prompt_set: str, depth: int, adapter: str
) -> AcceptanceCounts:
    chosen = [
        record.counts
        for record in records
        if record.arm == arm and record.prompt_set == prompt_set and record.counts.num_speculative_tokens == depth
    ]
    total = sum(chosen, AcceptanceCounts.zero(depth))
    if not total.num_drafts:
        raise PredictorError(
            f"adapter {adapter!r}: no drafts in arm {arm!r}, prompts {prompt_set!r}, K={depth}; measure it first"
        )
    return total


def training_example(
    features: Mapping[str, Any], record: AcceptanceRecord, *, mode: str, source: str, prompt_set: str
) -> TrainingExample:
    """Join one adapter's features payload with its acceptance record.

    Raises
    ------
    PredictorError
        The two are of different adapter weights, or a needed cell has no drafts.
    """
    name, sha256 = record.adapter, features["adapter"]["weights_sha256"]
    if record.adapter_sha256 != sha256:
        raise PredictorError(
            f"adapter {name!r}: features are of weights {str(sha256)[:12]}, counts of "
            f"{record.adapter_sha256[:12]}; extract or measure again"
        )
    prompts = record.chosen("replay")
    arms: dict[Arm, tuple[AcceptanceCounts, ...]] = {
        arm: tuple(
            _pooled(prompts, arm=arm, prompt_set=prompt_set, depth=depth, adapter=name)
            for depth in range(1, record.max_depth + 1)
        )
        for arm in ("adapted", "base")
    }
    columns = column_set_of(mode).from_groups(features["columns"])
    return TrainingExample(name, sha256, source, columns, arms["adapted"], arms["base"])


def each_source_left_out(
    examples: Sequence[TrainingExample],
) -> Iterator[tuple[str, list[TrainingExample], list[TrainingExample]]]:
    """Yield (source, the examples of the others, its own), sources in sorted order.

    Raises
    ------
    PredictorError
        There is one source only: nothing can be left out.
    """
    sources = sorted({example.source for example in examples})
    if len(sources) < 2:
        raise PredictorError(
            f"{len(examples)} adapters of {len(sources)} source{'' if sources else 's'}: nothing can be left out; add "
            "adapters of other sources"
        )
    for source in sources:
        inside = [example for example in examples if example.source != source]
        yield source, inside, [example for example in examples if example.source == source]
