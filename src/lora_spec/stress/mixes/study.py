"""What the comparison over mixes is made of: measured and predicted acceptance, verdicts, and what is asked of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.calibration_record import CalibrationRecord
from lora_spec.cost_model.model import CostModel
from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.cost_model.table_steps import TableSteps, table_token_ms
from lora_spec.errors import ResultError
from lora_spec.gate import gate_settings
from lora_spec.gate.engine_choice import OneEngine
from lora_spec.gate.fleet_policy import fleet_policy, policy_batch_sizes
from lora_spec.gate.fleet_verdicts import FleetVerdict
from lora_spec.gate.load_cells import LoadCell, judge_load_cells
from lora_spec.joins import check_same_weights
from lora_spec.policy.policy_file import SCHEMA_VERSION, Policy, parse_policy
from lora_spec.records import AcceptanceEstimate
from lora_spec.stress.mixes.contenders import PLAIN, Contender, Field, Knowledge, make_contenders
from lora_spec.stress.mixes.engine_by_mix import EngineByMix
from lora_spec.stress.mixes.mix import Mix, draw_mixes
from lora_spec.stress.mixes.regret import regrets_of, summary_of
from lora_spec.stress.mixes.serving import Horizon
from lora_spec.stress.policies.base import Rates, Situation

_VARIANTS: dict[str, dict[str, str]] = {PLAIN: {}, "abstained off": {"abstained": "off"}}
"""What an abstention becomes: rules in place of those in gate.yaml."""

_SAVINGS = (0.0, 0.5, 0.75, 1.0)

_NO_MERGED = {
    "policy": "merged_own_pool",
    "reason": "no step without LoRA was timed; measure the parts of a step (rule step_cost)",
}


@dataclass(frozen=True)
class Evidence:
    """What was measured and what was predicted, of the same adapters.

    Parameters
    ----------
    summaries
        Measured acceptance, as ``measured.json`` holds it.
    predictions
        Payloads of held-out predictions, the gate's own first.
    verdicts
        One fleet per feature mode.
    probes
        Calibration records; empty where adapters were not probed.
    step_cost
        Parts of a step, None where nobody has timed them: then nothing is known of engines without LoRA or of the tax,
        and what mixed depths spare follows from steps that all drafted alike.
    """

    summaries: Sequence[Mapping[str, Any]]
    predictions: Sequence[Mapping[str, Any]]
    verdicts: Sequence[Sequence[FleetVerdict]]
    probes: Sequence[CalibrationRecord]
    cost_model: CostModel
    step_cost: StepCostModel | None = None


class Study:
    """What is asked of the evidence, in the words of the contenders."""

    def __init__(
        self,
        evidence: Evidence,
        gate: Mapping[str, Any],
        baselines: Mapping[str, Any],
        traffic: Mapping[str, Any],
        scored: tuple[str, ...],
    ) -> None:
        self._evidence, self._gate, self._traffic = evidence, gate, traffic
        self._settings = gate_settings(gate)
        self._options = {entry["name"]: entry for entry in baselines["baselines"]}
        self.rules = baselines["mixes"]
        self.standing = self._settings.standing_num_speculative_tokens
        self.sizes = policy_batch_sizes(evidence.cost_model, self._settings)
        self.estimates = {
            item["adapter"]: AcceptanceEstimate.from_dict(item["estimate"]) for item in evidence.summaries
        }
        self.names = [name for name in self.estimates if name in scored]
        _check_joined(evidence)
        self._engine = self._one_engine()
        self.taxes = self._engine and self._engine.off_taxes
        self.token_ms = self._engine.token_ms if self._engine else table_token_ms(evidence.cost_model)
        self.policies = {
            (fleet[0].mode, variant): self._policy(fleet, variant)
            for fleet in evidence.verdicts
            for variant in (_VARIANTS if fleet[0].mode != "measured" else (PLAIN,))
        }

    def _one_engine(self) -> OneEngine | None:
        """Return what is known of an engine that can draft; None where nobody has timed the parts of a step."""
        parts, context = self._evidence.step_cost, self._gate["headline_load"]["num_context_tokens"]
        if parts is None:
            return None
        return OneEngine.of(self._evidence.cost_model, parts, self.sizes, num_context_tokens=context)

    def _merged_ratios(self) -> dict[int, float] | None:
        """Return T_0 without LoRA over T_0 with it, both of engines without a drafter, by batch size."""
        parts, context = self._evidence.step_cost, self._gate["headline_load"]["num_context_tokens"]
        if parts is None:
            return None
        with_lora = parts.without_drafter()
        excess = {
            size: with_lora.excess_over(with_lora.without_lora(), [0] * size, num_context_tokens=size * context)
            for size in self.sizes
        }
        return {size: 1 / (1 + found.estimate) for size, found in excess.items()}

    def _policy(self, fleet: Sequence[FleetVerdict], variant: str) -> Policy:
        """Return the policy file that the fleet's verdicts make, as an engine reads it."""
        payload = fleet_policy(
            fleet,
            self._evidence.cost_model,
            settings=self._settings,
            policy={**self._gate["policy"], **_VARIANTS[variant]},
        )
        envelope = {"kind": "policy", "schema_version": SCHEMA_VERSION, "payload": payload}
        return parse_policy(json.dumps(envelope).encode(), max_depth=self.standing)

    def mixes(self) -> list[Mix]:
        """Return the mixes, drawn by seed."""
        return draw_mixes(
            [self.estimates[name] for name in self.names],
            patterns=[entry for entry in self._traffic["patterns"] if entry["name"] in self.rules["patterns"]],
            sizes=self.rules["num_adapters"],
            num_mixes=self.rules["num_mixes"],
            max_depth=self.standing,
            num_time_draws=len(self._evidence.cost_model.draws_ms),
            seed=self.rules["seed"],
        )

    def regrets(
        self, contenders: Sequence[Contender], mixes: Sequence[Mix], *, saving: float = 1.0, threads: int = 1
    ) -> NDArray[np.float64]:
        """Return all regrets; ``saving`` is the share of the spared verification that is thought to be spared."""
        return regrets_of(
            contenders,
            mixes,
            self.names,
            self._evidence.cost_model,
            batch_sizes=self.sizes,
            max_depth=self.standing,
            token_ms=saving * self.token_ms,
            off_taxes=self.taxes,
            seed=self.rules["seed"],
            threads=threads,
        )

    def by_saving(self, contenders: Sequence[Contender], mixes: Sequence[Mix], *, threads: int) -> list[dict[str, Any]]:
        """Return the regret of measured verdicts if mixed depths spared less than was fitted."""
        chosen = [one for one in contenders if one.is_ours and (one.basis, one.variant) == ("measured", PLAIN)]
        found = {share: self.regrets(chosen, mixes, saving=share, threads=threads) for share in _SAVINGS}
        return [{"saving": share, **summary_of(regrets)} for share, regrets in found.items()]

    def contenders(self) -> list[Contender]:
        """Return all contenders."""
        loads = next(iter(self.policies.values())).loads
        situation = Situation(
            acceptance={},
            shares={},
            loads=loads,
            cost=TableSteps.of(self._evidence.cost_model, self.sizes[0], max_depth=self.standing),
            max_depth=self.standing,
            standing_depth=self.standing,
            options=self._options,
        )
        horizon = Horizon(self.rules["requests_per_adapter"], self._traffic["output_tokens"])
        shared = Field(situation, horizon, self._settings.hot_traffic_share)
        return make_contenders(shared, self._knowledge(), gate_mode=self._evidence.predictions[0]["context"]["mode"])

    def _knowledge(self) -> Knowledge:
        evidence = self._evidence
        predicted = {
            item["context"]["mode"]: {guess["adapter"]: _rates(guess["estimate"]) for guess in item["predictions"]}
            for item in evidence.predictions
        }
        return Knowledge(
            base={item["adapter"]: _rates(item["base_estimate"]) for item in evidence.summaries},
            predicted=predicted,
            probed={num: self._probed(num) for num in self._options["direct_probe"]["num_prompts"] if evidence.probes},
            policies=self.policies,
            merged_time_ratio=self._merged_ratios(),
            engines=self._engines(),
        )

    def _engines(self) -> dict[str, EngineByMix]:
        """Return who chooses engines, by feature mode."""
        engine = self._engine
        if engine is None:
            return {}
        return {
            fleet[0].mode: EngineByMix(
                {v.name: v for v in fleet}, self.policies[fleet[0].mode, PLAIN], engine, self.sizes
            )
            for fleet in self._evidence.verdicts
        }

    def _probed(self, num_prompts: int) -> dict[str | None, Rates]:
        """Return what a probe of so many prompts counted; who was not probed is not told."""
        counts = {item.adapter: item.direct_probe(self.standing, num_prompts) for item in self._evidence.probes}
        return {name: found.acceptance_rate_per_pos or () for name, found in counts.items()}

    def load_cells(self, mode: str, variant: str) -> dict[str, Any]:
        """Return every adapter at every load, and how many are slower than allowed."""
        policy = self.policies[mode, variant]
        cells = judge_load_cells(
            self.estimates,
            {name: policy.depths_of(name) for name in self.estimates},
            self._evidence.cost_model,
            batch_sizes=self.sizes,
            reference_depths=(0, self.standing),
            level=self.rules["tpot_level"],
            max_loss=self.rules["max_tpot_loss"],
            seed=self.rules["seed"],
        )
        shown = {"basis": mode, "variant": variant, "num_cells": len(cells) // 2}
        below = [cell for cell in cells if cell.is_below]
        return {
            **shown,
            "num_below_off": sum(cell.reference_depth == 0 for cell in below),
            "num_below_standing": sum(cell.reference_depth == self.standing for cell in below),
            "below": [asdict(cell) for cell in below],
            "worst_gain": _worst(cells),
        }

    def context(self) -> dict[str, Any]:
        """Return what the numbers hold for."""
        return {
            "standing_num_speculative_tokens": self.standing,
            "batch_sizes": list(self.sizes),
            "num_scored_adapters": len(self.names),
            "num_measured_adapters": len(self.estimates),
            "requests_per_adapter": self.rules["requests_per_adapter"],
            "output_tokens": self._traffic["output_tokens"],
            "spared_token_ms": self.token_ms,
            "off_in_engine_taxes": None if self.taxes is None else list(self.taxes.values()),
            "not_evaluated": [_NO_MERGED] if self.taxes is None else [],
        }


def _check_joined(evidence: Evidence) -> None:
    """Refuse a measured adapter without a verdict, and entries of one name that are of different weights."""
    fleets = {fleet[0].mode: {verdict.name: verdict.weights_sha256 for verdict in fleet} for fleet in evidence.verdicts}
    guesses = {
        item["context"]["mode"]: {guess["adapter"]: guess["adapter_sha256"] for guess in item["predictions"]}
        for item in evidence.predictions
    }
    probes = {probe.adapter: probe.adapter_sha256 for probe in evidence.probes}
    for summary in evidence.summaries:
        name = summary["adapter"]
        weights = {"measured counts": summary["adapter_sha256"]}
        for mode, found in fleets.items():
            if name not in found:
                raise ResultError(f"adapter {name!r} was measured and has no verdict of mode {mode}; run decide again")
            weights[f"verdicts of mode {mode}"] = found[name]
        told = {f"predictions of mode {mode}": found for mode, found in guesses.items()} | {"probe": probes}
        weights |= {what: found[name] for what, found in told.items() if name in found}
        check_same_weights(name, weights)


def _rates(estimate: Mapping[str, Any]) -> Rates:
    return tuple(estimate["acceptance_rate_per_pos"])


def _worst(cells: Sequence[LoadCell]) -> float:
    return min(cell.gain.estimate for cell in cells)
