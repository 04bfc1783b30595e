"""Tables for figures: truth, guess and cost meet here, adapter by adapter, and nowhere else."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pandas as pd

from lora_spec.cost_model import CostModel
from lora_spec.cost_model.validation import compare_with_line
from lora_spec.errors import ResultError
from lora_spec.features.columns import CheckpointCalibColumns
from lora_spec.gate import GateSettings, decision_map
from lora_spec.gate.overtaking import best_speedups, count_overtaking
from lora_spec.plots.context import with_context
from lora_spec.plots.guessed_rows import guessed_rows
from lora_spec.plots.risk_rows import risk_coverage_rows
from lora_spec.records import AcceptanceEstimate, Interval
from lora_spec.step_time_cell import StepTimeCell

PROBED_MODE = CheckpointCalibColumns.mode

MAP_TOKEN_ACCEPTANCE_PROBS = tuple(i / 60 for i in range(61))
"""Grid of the decision map; a resolution, not a setting."""


@dataclass(frozen=True)
class Study:
    """Everything that a tier's tables are made of; adapters are in pool order.

    ``measured`` and ``predicted`` map an adapter's name to its summary (``measurement.summary``) and its prediction;
    ``verdicts`` maps (name, mode) to the verdict's JSON; ``pool`` maps a name to its row; ``certifications`` are of the
    predicted modes, the gate's first; ``points`` maps a mode that the gate is not given to the held-out acceptance
    lengths of its predictor there, without intervals.
    """

    tier: str
    evidence: str
    setup: str
    level: float
    pool: Mapping[str, Mapping[str, Any]]
    measured: Mapping[str, Mapping[str, Any]]
    predicted: Mapping[str, AcceptanceEstimate]
    verdicts: Mapping[tuple[str, str], Mapping[str, Any]]
    cost_model: CostModel
    cells: Sequence[StepTimeCell]
    gate: GateSettings
    effect: Mapping[str, Any]
    certifications: Sequence[Mapping[str, Any]]
    map_batch_sizes: Sequence[int]
    points: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    cpu_features: Sequence[str] | None = None

    @property
    def standing(self) -> int:
        """Return the standing depth K."""
        return self.gate.standing_num_speculative_tokens

    @property
    def predicted_mode(self) -> str:
        """Return the mode of the predicted verdicts that the gate is given."""
        return self.certifications[0]["context"]["mode"]

    def estimate(self, name: str) -> AcceptanceEstimate:
        """Return the measured acceptance of an adapter."""
        return AcceptanceEstimate.from_dict(dict(self.measured[name]["estimate"]))

    def table(self, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
        """Return rows as a table with its context columns."""
        return with_context(
            pd.DataFrame(list(rows)),
            tier=self.tier,
            evidence=self.evidence,
            setup=self.setup,
            interval_level=self.level,
        )


def paired_effect_table(study: Study) -> pd.DataFrame:
    """Return the table of figure 2; the threshold is the pre-registered share of the base's accepted drafts."""
    rows, share = [], study.effect["rule"]["min_accepted_loss"]
    for name, summary in study.measured.items():
        for effect in summary["effects"]:
            difference, base = Interval(**effect["acceptance_length_difference"]), effect["counts"]["base"]
            if not base["num_drafts"]:
                raise ResultError(f"adapter {name!r}: no base drafts on {effect['prompt_set']!r}; measure it")
            rows.append(
                {
                    "adapter": name,
                    "stratum": study.pool[name]["stratum"],
                    "prompt_set": effect["prompt_set"],
                    "delta_acceptance_length": difference.estimate,
                    "lower": difference.lower,
                    "upper": difference.upper,
                    "num_prompts": effect["num_prompts"],
                    "num_drafts": sum(counts["num_drafts"] for counts in effect["counts"].values()),
                    "threshold": -share * base["num_accepted_tokens"] / base["num_drafts"],
                    "min_accepted_loss": share,
                    "num_speculative_tokens": study.effect["rule"]["num_speculative_tokens"],
                    "conclusion": f"{study.effect['answer']}: {study.effect['sentence']}",
                }
            )
    return study.table(rows)


def predicted_vs_measured_table(study: Study) -> pd.DataFrame:
    """Return the table of figure 3: every prediction comes from adapters of other domains."""
    return study.table(guessed_rows(study))


def rank_disagreement_table(study: Study) -> pd.DataFrame:
    """Return the table of figure 5: at every measured load, adapters by acceptance and by their best speedup."""
    estimates = {name: study.estimate(name) for name in study.measured}
    lengths = {name: found.acceptance_length(study.standing).estimate for name, found in estimates.items()}
    rows = [row for size in study.cost_model.batch_sizes for row in _ranked_at(study, size, estimates, lengths)]
    frame = study.table(rows)
    at_load = frame.groupby("load_batch_size")
    return frame.assign(
        acceptance_rank=at_load["acceptance_length"].rank(ascending=False),
        throughput_rank=at_load["speedup"].rank(ascending=False),
        standing_num_speculative_tokens=study.standing,
    )


def _ranked_at(
    study: Study, batch_size: int, estimates: Mapping[str, AcceptanceEstimate], lengths: Mapping[str, float]
) -> list[dict[str, Any]]:
    best = best_speedups(
        estimates,
        study.cost_model,
        depths=study.gate.candidate_depths,
        batch_size=batch_size,
        level=study.level,
        seed=batch_size,
    )
    overtaking = count_overtaking(lengths, best, level=study.level)
    return [
        {
            "adapter": name,
            "load_batch_size": batch_size,
            "acceptance_length": lengths[name],
            "num_speculative_tokens": found.num_speculative_tokens,
            "speedup": found.interval.estimate,
            "lower": found.interval.lower,
            "upper": found.interval.upper,
            **asdict(overtaking[name]),
        }
        for name, found in best.items()
    ]


def decision_map_table(study: Study) -> pd.DataFrame:
    """Return the table of figure 6: the map's cells, and the adapters at every load of the map that was timed."""
    cells = decision_map(
        study.cost_model,
        study.gate,
        token_acceptance_probs=MAP_TOKEN_ACCEPTANCE_PROBS,
        batch_sizes=study.map_batch_sizes,
    )
    rows: list[dict[str, Any]] = [
        {
            "kind": "cell",
            "acceptance_length": cell.acceptance_length,
            "load_batch_size": int(cell.batch_size),
            "num_speculative_tokens": cell.num_speculative_tokens,
            "action": cell.action,
            "speedup": cell.speedup,
        }
        for cell in cells
    ]
    for name in study.measured:
        rows += _adapter_on_map(study, name)
    missing = {"adapter": None, "mode": None, "lower": None, "upper": None}
    filled = [{**missing, **row, "standing_num_speculative_tokens": study.standing} for row in rows]
    return study.table(filled)


def _adapter_on_map(study: Study, name: str) -> list[dict[str, Any]]:
    verdict = study.verdicts[name, "measured"]
    length = study.estimate(name).acceptance_length(study.standing)
    by_load = (verdict["speedup"] or {"context": {}})["context"].get("by_load", [])
    return [
        {
            "kind": "adapter",
            "adapter": name,
            "mode": "measured",
            "acceptance_length": length.estimate,
            "lower": length.lower,
            "upper": length.upper,
            "load_batch_size": int(load["batch_size"]),
            "num_speculative_tokens": load["num_speculative_tokens"],
            "action": load["action"],
            "speedup": None
            if load["num_speculative_tokens"] is None
            else load["speedup_by_depth"][str(load["num_speculative_tokens"])]["estimate"],
        }
        for load in by_load
    ]


def cost_model_table(study: Study) -> pd.DataFrame:
    """Return the table of figure 7: every timed cell beside the line, held out where that is no extrapolation."""
    names = (
        "num_speculative_tokens",
        "batch_size",
        "num_context_tokens",
        "lora_rank",
        "measured_ms",
        "lower_ms",
        "upper_ms",
        "predicted_ms",
        "num_trials",
        "num_steps",
        "is_held_out",
    )
    table = study.table([{name: getattr(pair, name) for name in names} for pair in compare_with_line(study.cells)])
    # Bars span the trials, they are no intervals; prompts and lengths of the study's line are those of the counts.
    return table.assign(interval_level=None, setup=_timed_on(study.cost_model.context.get("engine") or {}))


def _timed_on(engine: Mapping[str, Any]) -> str:
    """Return what the steps were timed on, in words; what the step times do not say is left out."""
    pair = [str(engine[key]) for key in ("target", "drafter") if engine.get(key)]
    words = [" + ".join(pair)] if pair else []
    words += [f"vLLM {engine['vllm']}"] if engine.get("vllm") else []
    words += [str(engine["dtype"])] if engine.get("dtype") else []
    return ", ".join([*words, "one running batch taken through all depths, LoRA on"])


def risk_coverage_table(study: Study) -> pd.DataFrame:
    """Return the table of figure 8: risk against coverage of the predicted verdicts."""
    rows = [row for certification in study.certifications for row in risk_coverage_rows(certification)]
    # Its bounds are one-sided, at a confidence of their own.
    return study.table(rows).assign(interval_level=None)


def _base_length(study: Study, name: str) -> float:
    """Return the acceptance length of the unadapted target on the same prompts: a loss may be the prompts' own."""
    base = AcceptanceEstimate.from_dict(dict(study.measured[name]["base_estimate"]))
    return base.acceptance_length(study.standing).estimate


def verdict_rows(study: Study) -> pd.DataFrame:
    """Return the verdict table: measured and predicted side by side, one row per adapter."""
    rows = []
    for name in study.measured:
        truth, guess = study.verdicts[name, "measured"], study.verdicts[name, study.predicted_mode]
        length = study.estimate(name).acceptance_length(study.standing)
        speedup = truth["speedup"] or {}
        rows.append(
            {
                "adapter": name,
                "stratum": study.pool[name]["stratum"],
                "acceptance_length": length.estimate,
                "lower": length.lower,
                "upper": length.upper,
                "base_acceptance_length": _base_length(study, name),
                "measured_action": truth["action"],
                "measured_num_speculative_tokens": truth["num_speculative_tokens"],
                "speedup": speedup.get("estimate"),
                "speedup_lower": speedup.get("lower"),
                "speedup_upper": speedup.get("upper"),
                "speedup_level": speedup.get("level"),
                "speedup_num_speculative_tokens": speedup.get("context", {}).get("num_speculative_tokens"),
                "predicted_action": guess["action"],
                "probed_action": study.verdicts.get((name, PROBED_MODE), {}).get("action"),
                "reason_code": guess["reasons"][0]["code"] if guess["reasons"] else None,
                "reason": guess["reasons"][0]["message"] if guess["reasons"] else None,
                "processor": None if study.cpu_features is None else " ".join(study.cpu_features) or "none of them",
            }
        )
    return study.table(rows)


TABLES = {
    "paired_effect": paired_effect_table,
    "predicted_vs_measured": predicted_vs_measured_table,
    "rank_disagreement": rank_disagreement_table,
    "decision_map": decision_map_table,
    "cost_model_fit": cost_model_table,
    "risk_coverage": risk_coverage_table,
    "verdicts": verdict_rows,
}
"""Table name to the function that makes it; figures bear the names of their tables."""
