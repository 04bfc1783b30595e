"""The columns of ``checkpoint_calib``: what a calibration probe of the first N prompts says.

Shares and means are over all positions of the N texts together, so that every token counts once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lora_spec.calibration_record import CalibrationPrompt, CalibrationRecord
from lora_spec.errors import MeasurementError, ResultError
from lora_spec.features.columns import CALIBRATED_DEPTHS, CheckpointCalibColumns
from lora_spec.joins import by_adapter, check_same_weights
from lora_spec.records import AcceptanceCounts

KL_FLOOR_NATS = 1e-4
"""What logarithms of divergences are floored at: below it lies the rounding of a model in bfloat16."""

_HIGH_QUANTILE = 0.9
_EARLY_POSITIONS = 8  # by the eighth token most texts have taken the adapter's form or not
_REPEATED_LENGTH = 4


def with_calibration(features: Mapping[str, Any], record: CalibrationRecord, num_prompts: int) -> dict[str, Any]:
    """Return a features payload with the columns that a probe of the first N prompts adds; all others stay untouched.

    Raises
    ------
    ResultError
        Features and record are of different weights.
    MeasurementError
        The record holds fewer prompts, or was not counted at every depth that has a column.
    """
    weights = {"features": features["adapter"]["weights_sha256"], "calibration probe": record.adapter_sha256}
    check_same_weights(record.adapter, weights)
    columns = calibration_columns(record, num_prompts)
    return {**features, "columns": {**features["columns"], "checkpoint_calib": dict(columns.values)}}


def with_calibrations(
    features: Sequence[Mapping[str, Any]], records: Sequence[CalibrationRecord], num_prompts: int
) -> list[Mapping[str, Any]]:
    """Return features payloads, each with the columns of its adapter's probe; one without a probe stays as it is.

    Raises
    ------
    ResultError
        An adapter was probed twice, or has no features; otherwise as :func:`with_calibration`.
    """
    by_name = by_adapter(records, lambda record: record.adapter, what="calibration records")
    names = [item["adapter"]["name"] for item in features]
    if lost := [name for name in by_name if name not in names]:
        raise ResultError(f"adapter {lost[0]!r} has a calibration probe but no features; extract them, or leave it out")
    return [
        with_calibration(item, by_name[name], num_prompts) if name in by_name else item
        for name, item in zip(names, features, strict=True)
    ]


def calibration_columns(record: CalibrationRecord, num_prompts: int) -> CheckpointCalibColumns:
    """Return the columns of the first N prompts; raises MeasurementError as :func:`with_calibration`."""
    if record.max_depth < max(CALIBRATED_DEPTHS):
        raise MeasurementError(
            f"adapter {record.adapter!r}: the probe counted depths up to {record.max_depth}, its columns need "
            f"{max(CALIBRATED_DEPTHS)}; raise max_depth in phase1_measurement.yaml and probe it again"
        )
    texts = _Texts(record.first(num_prompts))
    counts = {depth: record.direct_probe(depth, num_prompts) for depth in CALIBRATED_DEPTHS}
    columns = _distances(texts) | _information(texts) | _agreements(texts) | _form(texts) | _direct_probe(counts)
    return CheckpointCalibColumns({f"calib_{name}": value for name, value in columns.items()})


@dataclass(frozen=True)
class _Texts:
    """The first N prompts as one list of positions."""

    prompts: Sequence[CalibrationPrompt]

    def values(self, signal: str) -> list[float]:
        return [value for prompt in self.prompts for value in prompt.signals[signal]]

    def mean(self, signal: str) -> float:
        return math.fsum(prompt.sum(signal) for prompt in self.prompts) / self.num_positions

    def share(self, signal: str, *, where: str, equals: float) -> float:
        """Return the share of 1 among positions of a kind, drawn to one half by one position of each answer."""
        chosen = [v for v, kind in zip(self.values(signal), self.values(where), strict=True) if kind == equals]
        return (math.fsum(chosen) + 1) / (len(chosen) + 2)

    @property
    def num_positions(self) -> int:
        return sum(prompt.num_positions for prompt in self.prompts)


def _distances(texts: _Texts) -> dict[str, float]:
    early = [v for prompt in texts.prompts for v in prompt.signals["js_base_nats"][:_EARLY_POSITIONS]]
    return {
        "log_kl_base": _log(texts.mean("kl_base_nats")),
        "log_kl_drafter": _log(texts.mean("kl_drafter_nats")),
        "js_base": texts.mean("js_base_nats"),
        "js_drafter": texts.mean("js_drafter_nats"),
        "js_base_high": _quantile(texts.values("js_base_nats")),
        "js_drafter_high": _quantile(texts.values("js_drafter_nats")),
        "js_base_early": math.fsum(early) / len(early),
        "overlap_drafter": texts.mean("overlap_drafter"),
        "overlap_base_drafter": texts.mean("overlap_base_drafter"),
    }


def _information(texts: _Texts) -> dict[str, float]:
    names = ("entropy_adapted", "entropy_base", "entropy_drafter")
    entropies = {name: texts.mean(f"{name}_nats") for name in names}
    surprisals = {
        name: texts.mean(f"{name}_nats") for name in ("surprisal_adapted", "surprisal_base", "surprisal_drafter")
    }
    return {
        **entropies,
        **surprisals,
        "entropy_shift": entropies["entropy_adapted"] - entropies["entropy_base"],
        "entropy_gap_drafter": entropies["entropy_drafter"] - entropies["entropy_adapted"],
    }


def _agreements(texts: _Texts) -> dict[str, float]:
    return {
        "top1_base": texts.mean("is_base_first"),
        "top1_drafter": texts.mean("is_drafter_first"),
        "top1_drafter_base": texts.mean("is_drafter_base_first"),
        "top1_drafter_where_base_agrees": texts.share("is_drafter_first", where="is_base_first", equals=1.0),
        "top1_drafter_where_base_differs": texts.share("is_drafter_first", where="is_base_first", equals=0.0),
    }


def _form(texts: _Texts) -> dict[str, float]:
    grams = [_grams(prompt.output_token_ids) for prompt in texts.prompts]
    num_grams, num_distinct = sum(map(len, grams)), sum(len(set(one)) for one in grams)
    return {
        "log_num_output_tokens": math.log(texts.num_positions / len(texts.prompts)),
        "ended_share": sum(prompt.finish_reason == "stop" for prompt in texts.prompts) / len(texts.prompts),
        "repeated_share": 1 - num_distinct / num_grams if num_grams else 0.0,
    }


def _grams(token_ids: Sequence[int]) -> list[tuple[int, ...]]:
    return [tuple(token_ids[i : i + _REPEATED_LENGTH]) for i in range(len(token_ids) - _REPEATED_LENGTH + 1)]


def _direct_probe(counts: Mapping[int, AcceptanceCounts]) -> dict[str, float]:
    """Return E_K at every depth, and the odds of each token given those before it, at the deepest.

    Half a draft is added on both sides of the odds, which would else be infinite in a small probe.
    """
    # Texts of one token draft nothing, and gain nothing by it.
    lengths = {f"acceptance_length_{depth}": found.acceptance_length or 1.0 for depth, found in counts.items()}
    deepest = counts[max(counts)]
    reached = (deepest.num_drafts, *deepest.num_accepted_tokens_per_pos)
    odds = {
        f"log_odds_{position}": math.log((accepted + 0.5) / (before - accepted + 0.5))
        for position, (before, accepted) in enumerate(pairwise(reached), start=1)
    }
    return lengths | odds


def _log(mean_nats: float) -> float:
    return math.log(max(mean_nats, KL_FLOOR_NATS))


def _quantile(values: Sequence[float]) -> float:
    """Return the value that nine tenths of the positions do not exceed."""
    ordered = sorted(values)
    return ordered[math.ceil(_HIGH_QUANTILE * len(ordered)) - 1]
