"""Features and counts of the same adapters, joined by name and held together by their weights."""

from collections.abc import Mapping, Sequence
from typing import Any

from lora_spec.errors import PredictorError, ResultError
from lora_spec.joins import by_adapter, check_same_weights
from lora_spec.predictors.examples import TrainingExample, training_example
from lora_spec.records import AcceptanceRecord

_ZERO_UPDATE = "N_ZERO_UPDATE"


def teaching_features(features: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the features of adapters that teach something: their inspection is ``ok`` and their update is not zero."""
    return [item for item in features if item["status"] == "ok" and _ZERO_UPDATE not in item["codes"]]


def check_joined(features: Sequence[Mapping[str, Any]], records: Sequence[AcceptanceRecord]) -> None:
    """Raise ResultError where an adapter stands twice, its features and its counts are of different weights, it has
    counts and no features, or features are of different base profiles.

    Features without counts are left to who needs them: an adapter that teaches nothing need not be measured.
    """
    check_one_profile(features)
    by_name = by_adapter(records, lambda record: record.adapter, what="acceptance records")
    featured = by_adapter(features, lambda item: item["adapter"]["name"], what="features")
    if lost := [name for name in by_name if name not in featured]:
        raise ResultError(f"adapter {lost[0]!r} has counts but no features; extract them, or leave its counts out")
    for name, item in featured.items():
        if name in by_name:
            weights = {"features": item["adapter"]["weights_sha256"], "counts": by_name[name].adapter_sha256}
            check_same_weights(name, weights)


def check_one_profile(features: Sequence[Mapping[str, Any]]) -> None:
    """Raise ResultError where features were taken with different base profiles: their columns do not compare."""
    first: tuple[str, str] | None = None
    for item in features:
        name, profile = item["adapter"]["name"], item.get("base_profile_sha256")
        if profile is None:
            continue
        if first is not None and profile != first[1]:
            raise ResultError(
                f"adapter {name!r}: its features were taken with base profile {profile[:12]}, those of {first[0]!r} "
                f"with {first[1][:12]}; extract the features of both with one profile"
            )
        first = first or (name, profile)


def examples_of(
    features: Sequence[Mapping[str, Any]],
    records: Sequence[AcceptanceRecord],
    *,
    mode: str,
    sources: Mapping[str, str],
    prompt_set: str,
) -> list[TrainingExample]:
    """Return one example per features payload, in that order, with the columns of a mode.

    Raises
    ------
    PredictorError
        An adapter lacks its record, its source, or a group of the mode's columns.
    """
    by_name = {record.adapter: record for record in records}
    examples = []
    for item in features:
        name = item["adapter"]["name"]
        if name not in by_name or name not in sources:
            missing = "acceptance record" if name not in by_name else "source"
            raise PredictorError(f"adapter {name!r} has features but no {missing}; add it or leave the adapter out")
        examples.append(training_example(item, by_name[name], mode=mode, source=sources[name], prompt_set=prompt_set))
    return examples


def check_held_out(prediction: Mapping[str, Any], *, source: str, weights: Mapping[str, str]) -> None:
    """Refuse a prediction of other weights, or one whose fit left out something else than the adapter's source.

    Parameters
    ----------
    weights
        SHA-256 of the adapter's weights by what it is held against.

    Raises
    ------
    ResultError
        A judgement would be of another adapter, or of a fit that may have seen this one.
    """
    name, left_out = prediction["adapter"], prediction["left_out"]
    check_same_weights(name, {"predictions": prediction["adapter_sha256"], **weights})
    if left_out != source:
        raise ResultError(
            f"adapter {name!r}: its prediction was made without {left_out!r}, its source is {source!r}; predict again"
        )
