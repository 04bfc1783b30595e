"""The ``gate_regret`` result: its payload, and reading it."""

from pathlib import Path

from typing_extensions import TypedDict

from lora_spec.gate.load_cells import LoadCell
from lora_spec.results import Result
from lora_spec.typed import read_typed_result


class Spread(TypedDict):
    """Regrets over mixes, and over loads where no load is named: shares of the oracle's goodput."""

    mean: float
    p5: float
    p25: float
    p50: float
    p75: float
    p95: float
    max: float


class LoadSpread(Spread):
    """The same at one load."""

    batch_size: int


class SavingSpread(Spread):
    """The same of measured verdicts if mixed depths spared this share of the verification that was fitted."""

    saving: float


class ContenderPayload(TypedDict):
    """One policy with what it knows; ``regrets`` by load, then by mix, as listed in ``mixes``."""

    policy: str
    basis: str
    variant: str
    is_ours: bool
    overall: Spread
    by_load: list[LoadSpread]
    by_pattern: dict[str, Spread]
    is_mean_met: bool
    is_p95_met: bool
    regrets: list[list[float]]


class MixPayload(TypedDict):
    """One mix."""

    pattern: str
    num_adapters: int


class LoadCellsPayload(TypedDict):
    """Verdicts of one basis at every load; ``below`` holds the cells that are slower than allowed."""

    basis: str
    variant: str
    num_cells: int
    num_below_off: int
    num_below_standing: int
    worst_gain: float
    below: list[LoadCell]


class Bars(TypedDict):
    """As ``baselines.yaml`` sets them."""

    max_mean_regret: float
    max_p95_regret: float
    max_tpot_loss: float
    tpot_level: float


class NotEvaluated(TypedDict):
    """A policy of the registry without numbers, and why."""

    policy: str
    reason: str


class RegretContext(TypedDict):
    """What the numbers hold for."""

    standing_num_speculative_tokens: int
    batch_sizes: list[int]
    num_scored_adapters: int
    num_measured_adapters: int
    requests_per_adapter: int
    output_tokens: int
    spared_token_ms: float
    off_in_engine_taxes: list[float] | None
    not_evaluated: list[NotEvaluated]


class GateRegretPayload(TypedDict):
    """What :func:`lora_spec.stress.mixes.report.gate_regret` gives."""

    context: RegretContext
    bars: Bars
    mixes: list[MixPayload]
    contenders: list[ContenderPayload]
    load_cells: list[LoadCellsPayload]
    by_saving: list[SavingSpread]


def read_gate_regret(path: Path, *, tier: str | None = None) -> Result:
    """Return the result; raises ResultError that names the file."""
    return read_typed_result(path, "gate_regret", GateRegretPayload, tier=tier)
