"""Every predictor in every mode, and every null, guessing the same adapters with the same sources left out.

Nothing of a source is seen by the fit that guesses it: scaling, penalties, columns and trees are chosen on the other
sources alone, by the inner cross-validation of each variant, which splits no source either. Copies, random updates and
repeats lie in their parent's source; they teach like any other adapter, and whether they count is for the scores to
say. Only points are guessed: intervals would fit every fold's folds again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lora_spec.errors import PredictorError
from lora_spec.predictors import acceptance_algebra as algebra
from lora_spec.predictors.base import Variant
from lora_spec.predictors.columns import BASE_ABLATION, COLUMN_SETS, CheckpointBaseColumns, CheckpointCalibColumns
from lora_spec.predictors.examples import TrainingExample, each_source_left_out
from lora_spec.predictors.joining import check_joined, examples_of, teaching_features
from lora_spec.predictors.nulls.base import Null
from lora_spec.predictors.nulls.registry import NULLS, held_out_by_null
from lora_spec.predictors.point import fit_point
from lora_spec.predictors.registry import VARIANTS
from lora_spec.predictors.settings import fit_settings, variant_options
from lora_spec.predictors.workers import run_all
from lora_spec.records import AcceptanceCounts, AcceptanceRecord

Call = tuple[Callable[..., "Contender"], tuple[Any, ...]]


@dataclass(frozen=True)
class HeldOutGuess:
    """One adapter, guessed without its source.

    Parameters
    ----------
    acceptance_length
        E_K at the standing depth.
    acceptance_rate_per_pos
        a_1 to a_max; None for a null, which guesses E_K alone.
    mismatch
        1 - accepted drafts per step over those of the base, the base's taken over the training adapters' prompts: the
        guessed adapter's own prompts are not looked at. None where the base accepts nothing.
    """

    acceptance_length: float
    acceptance_rate_per_pos: tuple[float, ...] | None
    mismatch: float | None


@dataclass(frozen=True)
class Contender:
    """One way to guess and its guesses by adapter; ``mode`` is None for a null."""

    predictor: str
    mode: str | None
    sees: str
    orders_adapters: bool
    guesses: Mapping[str, HeldOutGuess]

    @property
    def is_null(self) -> bool:
        """Return whether this is a null, which any predictor must beat."""
        return self.mode is None


@dataclass(frozen=True)
class HeldOutComparison:
    """All contenders, the adapters with their truth in the order given, and the modes that the features lack.

    ``with_moments`` holds every predictor on checkpoint_base without its margins, the middle step of the ablation
    (:data:`~lora_spec.predictors.columns.BASE_ABLATION`); none where that mode is lacking.
    """

    contenders: tuple[Contender, ...]
    examples: tuple[TrainingExample, ...]
    lacking: Mapping[str, str]
    with_moments: tuple[Contender, ...] = ()


def compare_held_out(
    features: Sequence[Mapping[str, Any]],
    records: Sequence[AcceptanceRecord],
    *,
    gate: Mapping[str, Any],
    sources: Mapping[str, str],
    prompt_set: str = "own",
    variants: Mapping[str, Variant] = VARIANTS,
    num_workers: int = 1,
) -> HeldOutComparison:
    """Return what every contender guesses of every adapter; arguments as for ``held_out.fit_and_hold_out``.

    Contenders are shared among ``num_workers`` processes.

    Raises
    ------
    PredictorError
        No mode has its columns, an adapter lacks its record or its source, or a fit fails: predictor, mode and
        left-out source are named.
    ResultError
        An adapter stands twice, or its features and its counts are of different weights.
    """
    check_joined(features, records)
    teaching = teaching_features(features)
    lacking = _lacking_modes(teaching)
    by_mode = {
        mode: examples_of(teaching, records, mode=mode, sources=sources, prompt_set=prompt_set)
        for mode in COLUMN_SETS
        if mode not in lacking
    }
    if not by_mode:
        raise PredictorError(f"{len(teaching)} adapters share the columns of no mode; extract the features again")
    calls = [
        (_contend, (name, variant, mode, examples, gate))
        for mode, examples in by_mode.items()
        for name, variant in variants.items()
    ]
    with_moments = list(_with_moments(by_mode.get(CheckpointBaseColumns.mode, ()), variants, gate))
    contended = run_all([*calls, *with_moments], num_workers=num_workers)
    contenders, moments = contended[: len(calls)], contended[len(calls) :]
    nulls = _contending_nulls(list(by_mode.values()), gate["standing_num_speculative_tokens"])
    examples = tuple(next(iter(by_mode.values())))
    return HeldOutComparison((*contenders, *nulls), examples, lacking, tuple(moments))


def guess_from_probes(
    features: Sequence[Mapping[str, Any]],
    records: Sequence[AcceptanceRecord],
    *,
    gate: Mapping[str, Any],
    sources: Mapping[str, str],
    prompt_set: str = "own",
) -> tuple[Contender, Contender]:
    """Return the direct probe and the gate's predictor in mode ``checkpoint_calib``, and no other contender.

    Raises
    ------
    PredictorError, ResultError
        As :func:`compare_held_out`.
    """
    check_joined(features, records)
    mode, name = CheckpointCalibColumns.mode, gate["predictor"]["model"]
    examples = examples_of(teaching_features(features), records, mode=mode, sources=sources, prompt_set=prompt_set)
    (direct,) = _contending_nulls([examples], gate["standing_num_speculative_tokens"], names=("direct_probe",))
    return direct, _contend(name, VARIANTS[name], mode, examples, gate)


def measured_mismatch(example: TrainingExample, depth: int) -> float | None:
    """Return 1 - accepted drafts per step over those of the base on the same prompts, None if the base's are none."""
    return _mismatch(
        example.counts_by_depth[depth - 1].acceptance_length, example.base_counts_by_depth[depth - 1].acceptance_length
    )


def _mismatch(adapted_length: float, base_length: float) -> float | None:
    return None if base_length <= 1 else 1 - (adapted_length - 1) / (base_length - 1)


def _lacking_modes(features: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return why a mode cannot be compared: the groups of columns that some adapter lacks."""
    lacking = {}
    for mode, kind in COLUMN_SETS.items():
        for group in kind.groups:
            num_without = sum(group not in item["columns"] for item in features)
            if num_without:
                lacking[mode] = f"{num_without} of {len(features)} adapters have no columns of group {group}"
    return lacking


def _base_length(examples: Sequence[TrainingExample], depth: int) -> float:
    pooled = sum((example.base_counts_by_depth[depth - 1] for example in examples), AcceptanceCounts.zero(depth))
    return pooled.acceptance_length


def _contend(
    name: str,
    variant: Variant,
    mode: str,
    examples: Sequence[TrainingExample],
    gate: Mapping[str, Any],
    sees: str | None = None,
) -> Contender:
    guesses: dict[str, HeldOutGuess] = {}
    for source, inside, outside in each_source_left_out(examples):
        try:
            guesses.update(_guesses(name, variant, inside, outside, gate))
        except PredictorError as err:
            raise PredictorError(f"{name} in mode {mode} without source {source!r}: {err}") from err
    ordered = {example.adapter: guesses[example.adapter] for example in examples}
    return Contender(name, mode, sees or f"the {mode} columns", orders_adapters=True, guesses=ordered)


def _with_moments(
    examples: Sequence[TrainingExample], variants: Mapping[str, Variant], gate: Mapping[str, Any]
) -> Iterator[Call]:
    """Yield the call that lets each variant contend on the columns of checkpoint_base less its first-order margins."""
    kind = BASE_ABLATION["moments"]
    lesser = [replace(example, columns=kind.less_than(example.columns)) for example in examples]
    for name, variant in variants.items() if lesser else ():
        yield _contend, (name, variant, kind.mode, lesser, gate, "tensors and second moments")


def _guesses(
    name: str,
    variant: Variant,
    inside: Sequence[TrainingExample],
    outside: Sequence[TrainingExample],
    gate: Mapping[str, Any],
) -> Iterator[tuple[str, HeldOutGuess]]:
    depth = gate["standing_num_speculative_tokens"]
    model = fit_point(variant, inside, settings=fit_settings(gate), options=variant_options(gate, name))
    base_length = _base_length(inside, depth)
    for example in outside:
        rates = model.rates(example.columns)
        length = float(algebra.acceptance_lengths(rates)[depth - 1])
        yield example.adapter, HeldOutGuess(length, tuple(rates.tolist()), _mismatch(length, base_length))


def _contending_nulls(
    by_mode: Sequence[Sequence[TrainingExample]], depth: int, *, names: Iterable[str] = NULLS
) -> Iterator[Contender]:
    """Yield every null whose columns some mode has, guessing from the first such mode."""
    for name, null in ((name, NULLS[name]) for name in names):
        for examples in by_mode:
            if set(null.columns_at(depth)) <= set(examples[0].columns.values):
                yield _contending_null(name, null, examples, depth)
                break


def _contending_null(name: str, null: Null, examples: Sequence[TrainingExample], depth: int) -> Contender:
    base_length = {source: _base_length(inside, depth) for source, inside, _ in each_source_left_out(examples)}
    source_of = {example.adapter: example.source for example in examples}
    guesses = {
        adapter: HeldOutGuess(length, None, _mismatch(length, base_length[source_of[adapter]]))
        for adapter, length in held_out_by_null(name, examples, depth=depth).items()
    }
    return Contender(name, None, null.sees, null.orders_adapters, guesses)
