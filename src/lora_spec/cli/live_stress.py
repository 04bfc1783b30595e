"""What ``phase5_serving`` does by a config: plan a live stress, or run it and write its record."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_spec.cli.policy_result import read_policy_result
from lora_spec.config import Tier
from lora_spec.cost_model.model import CostModel
from lora_spec.cost_model.payload import read_cost_model
from lora_spec.engines import AdapterRef
from lora_spec.engines.chat_template import encode_chat
from lora_spec.engines.server_options import ServerOptions
from lora_spec.errors import ConfigError
from lora_spec.gate.fleet_verdicts import FleetVerdict, read_fleet
from lora_spec.joins import by_adapter
from lora_spec.measurement.campaign import adapter_ref
from lora_spec.measurement.lock import machine_lock
from lora_spec.measurement.payload import read_measured
from lora_spec.measurement.processor import cpu_features
from lora_spec.measurement.served_files import adapter_files_sha256, model_files_sha256
from lora_spec.provenance import code_digest, collect_provenance, sha256_of_json
from lora_spec.stress.live_campaign import Done, LiveCampaign, measure_live
from lora_spec.stress.live_choice import Candidate, choose_adapters
from lora_spec.stress.live_plan import PlannedTrial, Served, expected_s, places, plan_trials, slots
from lora_spec.stress.live_prompts import OwnTraffic, own_prompts
from lora_spec.stress.live_table import write_live
from lora_spec.training.frozen_prompts import FrozenPrompts, freeze_prompts
from lora_spec.training.model_tokenizer import load_tokenizer


@dataclass(frozen=True)
class LiveInputs:
    """Results that a live stress is made from.

    Parameters
    ----------
    lengths
        By adapter, measured E_0, E_1, ...
    fleet
        Payload of ``policy.json``.
    """

    verdicts: Mapping[str, FleetVerdict]
    lengths: Mapping[str, tuple[float, ...]]
    cost_model: CostModel
    fleet: Mapping[str, Any]

    @classmethod
    def read(cls, *, verdicts: list[Path], measured: Path, cost_model: Path, policy: Path, tier: str) -> "LiveInputs":
        """Return the inputs in files of one tier."""
        summaries = read_measured(measured, tier=tier).payload["adapters"]
        return cls(
            verdicts={verdict.name: verdict for verdict in read_fleet(verdicts, mode="measured")},
            lengths={name: _lengths(item) for name, item in by_adapter(summaries, _name, what="measured").items()},
            cost_model=read_cost_model(cost_model, tier=tier),
            fleet=read_policy_result(policy, tier=tier)[1],
        )


def _name(summary: Mapping[str, Any]) -> str:
    return summary["adapter"]


def _lengths(summary: Mapping[str, Any]) -> tuple[float, ...]:
    return 1.0, *(length["estimate"] for length in summary["estimate"]["acceptance_length_by_depth"])


def adapters_in_traffic(tier: Tier, inputs: LiveInputs) -> tuple[str, ...]:
    """Return the adapters that the rule of ``traffic.yaml`` chooses."""
    pool = tier.adapter_pool
    candidates = [
        Candidate(name, pool.find(name).domain, inputs.verdicts[name].action)
        for name in pool.separate
        if name in inputs.verdicts and name in inputs.lengths
    ]
    return choose_adapters(candidates, tier.traffic.live.num_adapters)


def _step_ms(model: CostModel, depth: int, batch_size: float) -> float:
    return model.step_time_draws(depth, batch_size, num_draws=1)[0]


def _planned(tier: Tier, inputs: LiveInputs, *, inputs_sha256: str) -> dict[str, list[PlannedTrial]]:
    served = Served(
        adapters=adapters_in_traffic(tier, inputs),
        lengths=inputs.lengths,
        fleet=inputs.fleet,
        step_ms=lambda depth, batch: _step_ms(inputs.cost_model, depth, batch),
        candidate_depths=tuple(tier.gate.candidate_depths),
        max_num_seqs=tier.models.engine.max_num_seqs,
        inputs_sha256=inputs_sha256,
    )
    return plan_trials(tier.traffic.to_dict(), served)


def live_plan_payload(tier: Tier, inputs: LiveInputs | None) -> dict[str, Any]:
    """Return what a run would do; without inputs neither its adapters nor the depths of its policies are known yet."""
    traffic = tier.traffic.to_dict()
    plan: dict[str, Any] = {
        "live": traffic["live"],
        "expected_s": expected_s(traffic),
        "trials": {mode: [place.name for place in found] for mode, found in places(traffic["live"]).items()},
        "adapters": None,
        "policies": None,
    }
    if inputs is None:
        return plan
    planned = _planned(tier, inputs, inputs_sha256="")
    adapters = adapters_in_traffic(tier, inputs)
    plan["adapters"] = [{"name": name, "action": inputs.verdicts[name].action} for name in adapters]
    plan["policies"] = {item.place.name: item.policy.label for found in planned.values() for item in found}
    plan["num_requests"] = sum(len(item.trial.requests) for found in planned.values() for item in found)
    return plan


def run_live(
    tier: Tier,
    inputs: LiveInputs,
    *,
    target: Path,
    drafter: Path,
    adapters: Mapping[str, Path],
    state_dir: Path,
    lock: Callable[[], AbstractContextManager[None]] = machine_lock,
) -> tuple[Done, dict[str, Any]]:
    """Run what is not done yet; return all trials, and what the record says beside them.

    Raises
    ------
    ConfigError
        A folder of an adapter in traffic was not given, or weights are not those that the verdict is about.
    EngineError, MeasurementError
        As of :func:`~lora_spec.stress.live_campaign.measure_live`.
    """
    refs = {name: _ref(tier, name, adapters, inputs) for name in adapters_in_traffic(tier, inputs)}
    domains = {name: tier.adapter_pool.find(name).domain for name in refs}
    frozen = [FrozenPrompts.from_dict(item) for item in freeze_prompts(tier.prompts.to_dict()["sets"])]
    tokenizer = load_tokenizer(target)
    encoded = {name: encode_chat(tokenizer, texts) for name, texts in own_prompts(frozen, domains).items()}
    behind = {
        "models": [model_files_sha256(folder) for folder in (target, drafter)],
        "adapters": {name: adapter_files_sha256(Path(ref.path)) for name, ref in refs.items()},
        "prompts": sha256_of_json({name: list(map(list, prompts)) for name, prompts in encoded.items()}),
        "engine": tier.models.engine.to_dict(),
        "max_num_batched_tokens": tier.traffic.live.max_num_batched_tokens,
        "code": code_digest(Path(__file__)),
    }
    campaign = LiveCampaign(
        traffic=tier.traffic.to_dict(),
        planned=_planned(tier, inputs, inputs_sha256=sha256_of_json(behind)),
        options=_options(tier, inputs, target=target, drafter=drafter, refs=refs),
        prompt_of=OwnTraffic(encoded),
        state_dir=state_dir,
        start_timeout_s=tier.models.engine.start_timeout_s,
    )
    return measure_live(campaign, lock=lock), _payload(tier, inputs, refs)


def _ref(tier: Tier, name: str, adapters: Mapping[str, Path], inputs: LiveInputs) -> AdapterRef:
    if name not in adapters:
        raise ConfigError(f"adapter {name!r} is in traffic and has no folder; pass --adapters {name}=FOLDER")
    return adapter_ref(name, adapters, sha256=inputs.verdicts[name].weights_sha256)


def _options(
    tier: Tier, inputs: LiveInputs, *, target: Path, drafter: Path, refs: Mapping[str, AdapterRef]
) -> ServerOptions:
    engine = tier.models.engine
    return ServerOptions(
        target=target,
        drafter=drafter,
        num_speculative_tokens=inputs.fleet["max_num_speculative_tokens"],
        adapters={name: Path(ref.path) for name, ref in refs.items()},
        dtype=engine.dtype,
        max_model_len=engine.max_model_len,
        max_num_seqs=engine.max_num_seqs,
        max_lora_rank=engine.max_lora_rank,
        is_eager=engine.enforce_eager,
        kv_cache_gib=engine.kv_cache_gib or 1,
        max_num_batched_tokens=tier.traffic.live.max_num_batched_tokens,
    )


def _payload(tier: Tier, inputs: LiveInputs, refs: Mapping[str, AdapterRef]) -> dict[str, Any]:
    traffic, pair, engine = tier.traffic.to_dict(), tier.models.primary, tier.models.engine
    live, num = traffic["live"], len(refs)
    modes = list(dict.fromkeys(scenario["cache_mode"] for scenario in live["scenarios"]))
    depth = inputs.fleet["max_num_speculative_tokens"]
    return {
        "setup": (
            f"{pair.target.name} + {pair.drafter.name}, vLLM {engine.vllm_version} on {engine.device}, {engine.dtype}, "
            f"a server on loopback, {num} adapters, their own prompts, {live['output_tokens']} output tokens, greedy, "
            f"standing K={depth}"
        ),
        "engine": {
            **engine.to_dict(),
            "target": pair.target.name,
            "drafter": pair.drafter.name,
            "num_speculative_tokens": depth,
            "max_num_batched_tokens": live["max_num_batched_tokens"],
            "cpu_features": cpu_features(),
        },
        "adapters": [
            {
                "name": name,
                "domain": tier.adapter_pool.find(name).domain,
                "action": inputs.verdicts[name].action,
                "lora_rank": ref.lora_rank,
                "adapter_sha256": adapter_files_sha256(Path(ref.path))["adapter_model.safetensors"],
            }
            for name, ref in refs.items()
        ],
        "traffic": {
            **{key: live[key] for key in ("duration_s", "warmup_s", "drain_s", "output_tokens")},
            "service_level": traffic["service_level"],
        },
        "slots": {mode: slots(traffic, mode, num) for mode in modes},
    }


def write_live_record(path: Path, tier: Tier, done: Done, payload: Mapping[str, Any]) -> None:
    """Write a finished run with its provenance."""
    provenance = collect_provenance(config=tier.to_dict("traffic"), seed=tier.traffic.live.order_seed)
    write_live(path, done, payload=payload, tier=tier.name, provenance=provenance)
