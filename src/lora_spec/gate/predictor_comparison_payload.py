"""The ``predictor_comparison`` result: what it holds, and reading it."""

from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from lora_spec.gate.net_loss import FixedLoad
from lora_spec.measurement.probe_cost import CostBounds
from lora_spec.predictors.held_out_comparison import HeldOutGuess
from lora_spec.records import Interval, Mode
from lora_spec.results import Result
from lora_spec.typed import AdapterName, read_typed_result


class NetLossPayload(TypedDict):
    """What AUROC is about, how many adapters it holds for, and why none is given where it is not."""

    load: FixedLoad | None
    base_prompt_set: str
    prevalence: float | None
    is_scored: bool
    reason: str | None


class ContenderPayload(TypedDict):
    """One predictor in one mode, or one null; scores that are undefined or make no sense for it are null."""

    predictor: str
    mode: Mode | None
    is_null: bool
    sees: str
    spearman: Interval | None
    permutation_p: float | None
    auroc: Interval | None
    mismatch_spearman: Interval | None
    length_error: Interval | None
    calibration_error: Interval | None
    guesses: dict[AdapterName, HeldOutGuess]


class DifferencePayload(TypedDict):
    """A predictor's score minus a rival's, on the same draws of sources."""

    predictor: str
    mode: Mode
    against: str
    against_mode: Mode | None
    score: str
    difference: Interval | None


class AblationPayload(TypedDict):
    """One step of what a base profile gives a predictor; ``gain`` is over the step before, on the same draws."""

    predictor: str
    step: Literal["tensors", "moments", "margins"]
    spearman: Interval | None
    gain: Interval | None


class AdapterPayload(TypedDict):
    """The truth of an adapter; ``is_scored`` tells whether it counts in the scores."""

    adapter: AdapterName
    adapter_sha256: str
    source: str
    is_scored: bool
    acceptance_length: float
    acceptance_rate_per_pos: list[float]
    mismatch: float | None
    is_net_loss: bool | None


class ProbeSizePayload(TypedDict):
    """A probe of N prompts: Spearman without and with the other signals, and mean seconds per adapter of each."""

    num_prompts: int
    direct_probe: Interval | None
    predictor: Interval | None
    difference: Interval | None
    direct_probe_cost: CostBounds
    predictor_cost: CostBounds


class ProbeCurvePayload(TypedDict):
    """What :func:`lora_spec.gate.probe_curve.probe_curve` gives."""

    predictor: str
    mode: Mode
    without_probe: Interval | None
    without_probe_mode: Mode
    cost_is: str
    mean_other_cores: float
    sizes: list[ProbeSizePayload]


class ComparisonPayload(TypedDict):
    """What :func:`lora_spec.gate.predictor_comparison.compare_predictors` gives."""

    context: dict[str, Any]
    net_loss: NetLossPayload
    contenders: list[ContenderPayload]
    differences: list[DifferencePayload]
    base_ablation: list[AblationPayload]
    adapters: list[AdapterPayload]
    lacking_modes: dict[str, str]
    probe_curve: ProbeCurvePayload | None


def read_comparison(path: Path, *, tier: str | None = None) -> Result:
    """Return a comparison of predictors, as plain data; raises ResultError that names the file."""
    return read_typed_result(path, "predictor_comparison", ComparisonPayload, tier=tier)
