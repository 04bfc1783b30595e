"""The step-cost model against cells that it was not fitted to: errors by kind of step, sign of the benefit, loads."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lora_spec.cost_cells import AdapterLoadCell, CostCell, EngineArm
from lora_spec.cost_model.benefit_sign import BenefitCase, judge_benefit_signs
from lora_spec.cost_model.model import CostModel
from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.cost_model.validation import judge_tpot_error
from lora_spec.errors import MeasurementError


@dataclass(frozen=True)
class HeldOutStep:
    """A measured step beside the foretold one, in ms; ``lower_ms`` and ``upper_ms`` are the trials' extremes."""

    kind: str
    arm: EngineArm
    depths: tuple[int, ...]
    num_prompt_tokens: int
    num_prefill_tokens: int
    num_context_tokens: int
    measured_ms: float
    lower_ms: float
    upper_ms: float
    predicted_ms: float
    num_trials: int
    run_to_run_noise: float

    @property
    def depth(self) -> int | None:
        """Return the depth that all requests share, None where they differ or nothing decodes."""
        return self.depths[0] if len(set(self.depths)) == 1 else None


def foretell_held_out(cells: Sequence[CostCell], model: StepCostModel) -> tuple[HeldOutStep, ...]:
    """Return one entry per make-up of step among the cells whose use is ``validation``.

    Raises
    ------
    MeasurementError
        There is none: a model that nothing tests proves nothing.
    """
    grouped: dict[Any, list[CostCell]] = defaultdict(list)
    for cell in cells:
        if cell.use == "validation":
            grouped[cell.make_up].append(cell)
    if not grouped:
        raise MeasurementError("no cell was timed for validation; extend cost_parts.validation and measure again")
    return tuple(_held_out(repeats, model) for _, repeats in sorted(grouped.items()))


def _held_out(repeats: Sequence[CostCell], model: StepCostModel) -> HeldOutStep:
    first, medians = repeats[0], np.array([np.median(cell.step_ms) for cell in repeats])
    engine = {"served": model, "no_drafter": model.without_drafter(), "no_lora": model.without_lora()}[first.arm]
    context = round(float(np.mean([cell.num_context_tokens for cell in repeats])))
    measured = float(np.median(medians))
    return HeldOutStep(
        kind=_kind(first),
        arm=first.arm,
        depths=first.depths,
        num_prompt_tokens=first.num_prompt_tokens,
        num_prefill_tokens=first.num_prefill_tokens,
        num_context_tokens=context,
        measured_ms=measured,
        lower_ms=float(medians.min()),
        upper_ms=float(medians.max()),
        predicted_ms=engine.step_ms(
            first.depths, num_prefill_tokens=first.num_prefill_tokens, num_context_tokens=context
        ),
        num_trials=len(repeats),
        run_to_run_noise=float(np.mean(np.abs(medians / measured - 1))),
    )


def _kind(cell: CostCell) -> str:
    if cell.num_prefill_tokens:
        return "prefill"
    if cell.arm != "served":
        return cell.arm
    return "decode" if len(set(cell.depths)) == 1 else "mixed"


def benefit_cases(
    steps: Sequence[HeldOutStep], acceptance_lengths: Mapping[int, Sequence[float]]
) -> tuple[BenefitCase, ...]:
    """Return a case per acceptance length and held-out batch with speculation that has a twin without, same context.

    Twins are both ways of being off: depth 0 in the same engine, and an engine without a drafter.

    Parameters
    ----------
    acceptance_lengths
        E_K of the adapters there are, by depth K.
    """
    off: dict[Any, list[HeldOutStep]] = defaultdict(list)
    for step in steps:
        if step.depth == 0 and not step.num_prefill_tokens:
            off[len(step.depths), step.num_prompt_tokens, step.arm == "no_lora"].append(step)
    return tuple(
        BenefitCase(length, on.predicted_ms, twin.predicted_ms, on.measured_ms, twin.measured_ms)
        for on in steps
        if on.depth and not on.num_prefill_tokens
        for twin in off[len(on.depths), on.num_prompt_tokens, on.arm == "no_lora"]
        for length in acceptance_lengths.get(on.depth, ())
    )


def lengths_by_depth(estimates: Sequence[Mapping[str, Any]]) -> dict[int, list[float]]:
    """Return E_K of every estimate by depth, from acceptance estimates as plain data."""
    found: dict[int, list[float]] = defaultdict(list)
    for estimate in estimates:
        for depth, length in enumerate(estimate["acceptance_length_by_depth"], start=1):
            found[depth].append(length["estimate"])
    return dict(found)


def verdict_lines(payload: Mapping[str, Any]) -> list[str]:
    """Return what the bars say, in words; a missed one is called missed."""
    error, sign = payload["step_error"], payload["benefit_sign"]
    lines = [
        f"step time of {error['num_pairs']} held-out cells: mean |error| {error['mean_relative_error']:.1%}, bar "
        f"{error['bar']:.1%} at run-to-run noise {error['run_to_run_noise']:.1%}: {_ANSWERS[error['is_met']]}"
    ]
    share = "no case" if sign["share_right"] is None else f"{sign['share_right']:.1%} right"
    lines.append(
        f"sign of the benefit in {sign['num_cases']} cases outside +-{sign['dead_band']:.0%} "
        f"({sign['num_in_dead_band']} inside): {share}, bar {sign['bar']:.0%}: {_ANSWERS[sign['is_met']]}"
    )
    for kind, part in payload["step_error_by_kind"].items():
        lines.append(f"  {kind}: mean |error| {part['mean_relative_error']:.1%} over {part['num_pairs']} cells")
    return lines


_ANSWERS = {True: "met", False: "MISSED", None: "cannot be said"}


def validate_step_costs(
    cells: Sequence[CostCell],
    loads: Sequence[AdapterLoadCell],
    model: StepCostModel,
    *,
    acceptance_lengths: Mapping[int, Sequence[float]],
    table: CostModel | None = None,
) -> dict[str, Any]:
    """Return the payload of a ``step_cost_validation`` result: verdicts against their bars, and every held-out cell.

    ``step_error`` has the bar; errors by kind of step and of loads are told beside it and have none of their own.
    """
    steps = foretell_held_out(cells, model)
    by_kind = {kind: [step for step in steps if step.kind == kind] for kind in sorted({step.kind for step in steps})}
    return {
        "step_error": asdict(_judge(steps)),
        "step_error_by_kind": {kind: asdict(_judge(some)) for kind, some in by_kind.items()},
        "benefit_sign": asdict(judge_benefit_signs(benefit_cases(steps, acceptance_lengths))),
        "adapter_loads": _load_errors(loads, model),
        "table_difference": None if table is None else table_difference(model, table),
        "cells": [asdict(step) for step in steps],
    }


def _judge(steps: Sequence[HeldOutStep]) -> Any:
    noise = float(np.mean([step.run_to_run_noise for step in steps]))
    return judge_tpot_error([(step.predicted_ms, step.measured_ms) for step in steps], run_to_run_noise=noise)


def _load_errors(loads: Sequence[AdapterLoadCell], model: StepCostModel) -> list[dict[str, float]]:
    """Return the foretold and the measured (median over trials) load of every rank held out, in ms."""
    ranks = sorted({load.lora_rank for load in loads if load.use == "validation"})
    found = []
    for rank in ranks:
        chosen = [load for load in loads if load.use == "validation" and load.lora_rank == rank]
        found.append(
            {
                "lora_rank": rank,
                "predicted_load_ms": model.adapter_load_ms(rank),
                "measured_load_ms": float(np.median([load.first_use_ms - load.loaded_ms for load in chosen])),
                "predicted_place_ms": model.adapter_place_ms(rank),
                "measured_place_ms": float(np.median([load.from_memory_ms - load.loaded_ms for load in chosen])),
            }
        )
    return found


def table_difference(model: StepCostModel, table: CostModel) -> dict[str, float]:
    """Return how far the parts lie from the gate's table T_K(B) at its cells and context, as fractions of the table.

    Both were timed apart, the table with the drafter left out at depth 0.
    """
    contexts = table.context.get("num_context_tokens") or [0]
    context = sum(contexts) / len(contexts)
    differences = []
    for depth in table.depths:
        engine = model if depth else model.without_drafter()
        for batch_size in table.batch_sizes:
            held = table.step_time_ms(depth, batch_size).interval.estimate
            parts = engine.step_ms(
                (depth,) * batch_size, num_prefill_tokens=0, num_context_tokens=round(context * batch_size)
            )
            differences.append(abs(parts / held - 1))
    return {"mean_relative_difference": float(np.mean(differences)), "max_relative_difference": max(differences)}
