"""From training examples to an exported predictor: fit, hold out every source once, keep what the interval needs."""

import json
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.errors import PredictorError
from lora_spec.predictors import acceptance_algebra as algebra
from lora_spec.predictors.base import FitSettings, Variant
from lora_spec.predictors.columns import feature_matrix
from lora_spec.predictors.examples import TrainingExample
from lora_spec.predictors.novelty import fit_reference
from lora_spec.predictors.registry import variant_of
from lora_spec.provenance import sha256_of_json
from lora_spec.records import AcceptanceCounts

Array = NDArray[np.float64]

SCHEMA_VERSION = "1"
_MIN_SOURCES = 3
_PACKAGES = ("numpy", "scikit-learn", "statsmodels", "lightgbm", "lora-spec")


def fit_predictor(
    name: str,
    examples: Sequence[TrainingExample],
    *,
    settings: FitSettings,
    options: Mapping[str, Any],
    target_model: str,
    draft_model: str,
    num_calibration_prompts: int | None = None,
) -> dict[str, Any]:
    """Fit a variant and return it as plain JSON data, all that :func:`lora_spec.predictors.prediction.predict` needs.

    Parameters
    ----------
    num_calibration_prompts
        Of the probes behind the columns, where the mode looks at any: who asks must have probed as many.

    Raises
    ------
    PredictorError
        Fewer than three sources, rows of different modes, columns or depths, or data that determine nothing.
    """
    check_examples(examples, settings)
    variant, sources = variant_of(name), [example.source for example in examples]
    x, scaling = standardised(examples)
    y = conditional_logit_rows(examples, settings)
    folds, held_out = _fit_folds(variant, x, y, sources=sources, options=options)
    exported = {
        "schema_version": SCHEMA_VERSION,
        "predictor": name,
        "mode": examples[0].columns.mode,
        "target_model": target_model,
        "draft_model": draft_model,
        "standing_num_speculative_tokens": settings.standing_num_speculative_tokens,
        "max_depth": examples[0].max_depth,
        "num_calibration_prompts": num_calibration_prompts,
        "level": settings.level,
        "min_adapters": settings.min_adapters,
        "range_margin": settings.range_margin,
        **scaling,
        "model": variant.fit(x, y, sources=sources, options=options),
        "folds": folds,
        "residuals": _residuals(examples, held_out),
        "novelty": fit_reference(x, sources, num_neighbours=settings.num_neighbours, level=settings.novelty_level),
        **_origin(examples),
        "options": dict(options),
        "versions": {package: metadata.version(package) for package in _PACKAGES},
    }
    # Also turns tuples into lists, so that what is returned equals what is read back.
    return json.loads(json.dumps(exported, allow_nan=False))


def standardised(examples: Sequence[TrainingExample]) -> tuple[Array, dict[str, Any]]:
    """Return the varying columns at mean 0 and spread 1, and how to do the same to a new adapter."""
    names, raw = feature_matrix([example.columns for example in examples], type(examples[0].columns))
    with np.errstate(over="ignore", invalid="ignore"):
        centre, spread = raw.mean(axis=0), raw.std(axis=0)
    _check_spread(examples, names, raw, spread)
    varying = spread > 1e-9 * np.maximum(1.0, np.abs(centre))
    if not varying.any():
        raise PredictorError(f"none of {len(names)} columns varies over {len(examples)} adapters; add other adapters")
    columns = [column for column, is_varying in zip(names, varying, strict=True) if is_varying]
    constants = {name: float(c) for name, c, is_on in zip(names, centre, varying, strict=True) if not is_on}
    low, high = raw[:, varying].min(axis=0).tolist(), raw[:, varying].max(axis=0).tolist()
    return (raw[:, varying] - centre[varying]) / spread[varying], {
        "columns": columns,
        "centre": centre[varying].tolist(),
        "spread": spread[varying].tolist(),
        "constant_columns": constants,
        "training_range": {column: list(ends) for column, *ends in zip(columns, low, high, strict=True)},
    }


def _check_spread(examples: Sequence[TrainingExample], names: Sequence[str], raw: Array, spread: Array) -> None:
    """Refuse a column of finite numbers so large that float64 holds no square of them."""
    if np.isfinite(spread).all():
        return
    column = int(np.argmin(np.isfinite(spread)))
    row = int(np.argmax(np.abs(raw[:, column])))
    raise PredictorError(
        f"column {names[column]!r} holds {raw[row, column]:g} for adapter {examples[row].adapter!r}: too large to be "
        "standardised; inspect this adapter, and leave it out"
    )


def _origin(examples: Sequence[TrainingExample]) -> dict[str, Any]:
    """Return which adapters the predictor comes from, and the base beside which they were measured."""
    adapters = [{"name": e.adapter, "sha256": e.adapter_sha256, "source": e.source} for e in examples]
    zero = AcceptanceCounts.zero(examples[0].max_depth)
    base = sum((example.base_counts_by_depth[-1] for example in examples), zero)
    return {
        "base_acceptance_rate_per_pos": list(base.acceptance_rate_per_pos or ()),
        "training_adapters": adapters,
        "training_sha256": sha256_of_json(adapters),
        "num_adapters": len(examples),
        "num_sources": len({example.source for example in examples}),
    }


def check_examples(examples: Sequence[TrainingExample], settings: FitSettings) -> None:
    """Raise PredictorError where the examples cannot train: too few sources, several depths, depths short of the
    standing one, the same weights twice.
    """
    num_sources = len({example.source for example in examples})
    if num_sources < _MIN_SOURCES:
        raise PredictorError(
            f"{len(examples)} adapters of {num_sources} sources cannot train a predictor; "
            f"measure adapters of at least {_MIN_SOURCES} sources"
        )
    depths = sorted({example.max_depth for example in examples})
    if len(depths) > 1:
        raise PredictorError(f"adapters were measured to different depths {depths}; measure all to the same")
    if depths[0] < settings.standing_num_speculative_tokens:
        raise PredictorError(
            f"adapters were measured to depth {depths[0]}, the standing depth is "
            f"{settings.standing_num_speculative_tokens}; measure deeper or lower the standing depth"
        )
    hashes = [example.adapter_sha256 for example in examples]
    if len(set(hashes)) < len(hashes):
        twice = next(e.adapter for e in examples if hashes.count(e.adapter_sha256) > 1)
        raise PredictorError(f"the weights of adapter {twice!r} stand in the table twice; remove one of them")


def conditional_logit_rows(examples: Sequence[TrainingExample], settings: FitSettings) -> Array:
    """Return logit r_k of the deepest counts, shape ``(n, depth)``; NaN where an adapter says too little."""
    rows = [
        algebra.conditional_logits(e.counts_by_depth[-1], min_trials=settings.min_trials_per_position) for e in examples
    ]
    return np.array(rows)


def _fit_folds(
    variant: Variant, x: Array, y: Array, *, sources: Sequence[str], options: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], Array]:
    """Return one model per left-out source and, for each adapter, the logits by the model that did not see it."""
    names, held_out, folds = np.array(sources), np.empty_like(y), []
    for source in sorted(set(sources)):
        inside = names != source
        fitted = variant.fit(x[inside], y[inside], sources=list(names[inside]), options=options)
        folds.append({"left_out": source, "model": fitted})
        for row in np.flatnonzero(~inside):
            held_out[row] = variant.logits(fitted, x[row])
    return folds, held_out


def _residuals(examples: Sequence[TrainingExample], held_out: Array) -> dict[str, Any]:
    """Return absolute held-out errors, in logit a_k and in logit (E_K - 1) / K; shapes ``(n, depth)``.

    E_K is compared with the count taken at depth K itself, so its error also covers that a_k read off depth-max
    drafts is not exactly the a_k of shallower ones.
    """
    predicted = algebra.acceptance_rates(held_out)
    deepest = [example.counts_by_depth[-1] for example in examples]
    accepted = np.array([counts.num_accepted_tokens_per_pos for counts in deepest], dtype=np.float64)
    drafts = np.array([[counts.num_drafts] for counts in deepest], dtype=np.float64)
    rates = algebra.logit(algebra.smoothed_fraction(accepted, drafts))
    lengths = np.array([[_length_logit(counts) for counts in e.counts_by_depth] for e in examples])
    return {
        "rate_logit": np.abs(rates - algebra.logit(predicted)).tolist(),
        "length_logit": np.abs(lengths - algebra.length_logits(algebra.acceptance_lengths(predicted))).tolist(),
    }


def _length_logit(counts: AcceptanceCounts) -> float:
    accepted, possible = counts.num_accepted_tokens, counts.num_drafts * counts.num_speculative_tokens
    return float(algebra.logit(algebra.smoothed_fraction(np.float64(accepted), np.float64(possible))))
