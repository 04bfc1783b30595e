"""The folder that ``lora-spec policy`` and the workflow write: policy, pools, profiles and page."""

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lora_spec.cost_model.model import CostModel
from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.errors import ConfigError, LoraSpecError, PolicyError
from lora_spec.gate.engine_choice import OneEngine, depths_for_mix, drafting_gains
from lora_spec.gate.fleet_policy import at_load_of, fleet_policy
from lora_spec.gate.fleet_verdicts import FleetVerdict
from lora_spec.gate.pool_plan import pool_plan, pool_script
from lora_spec.gate.pools import check_loads_are_timed, check_same_engine, headline_index, off_in_engine_tax, plan_pools
from lora_spec.gate.serve_commands import Serving
from lora_spec.gate.settings import gate_settings
from lora_spec.gate.speculation_profile import speculation_profile
from lora_spec.joins import check_tier
from lora_spec.plots.fleet_page import Fleet, fleet_page
from lora_spec.policy import policy_file
from lora_spec.printing import printable
from lora_spec.records import Evidence
from lora_spec.results import Result, json_bytes, naming, result_bytes, write_all_atomically
from lora_spec.typed import AdapterName, check_type

POLICY, POOLS, SCRIPT, PAGE, PROFILES = "policy.json", "pools.json", "pools.sh", "fleet.html", "profiles"
FILES = (POLICY, POOLS, SCRIPT, PAGE, PROFILES)
_DEFAULT_LORA_RANK = 16
_PROFILE_SUFFIX = ".speculation_profile.json"


@dataclass(frozen=True)
class FleetInputs:
    """All that a policy is made from.

    Parameters
    ----------
    cost_model
        The result that the verdicts rest on.
    gate
        The values of ``gate.yaml``.
    summaries
        Measured acceptance by adapter, for the profiles; those that were not measured are missing.
    adapter_paths
        Where servers find each adapter.
    max_lora_rank
        None takes the rank that step times were measured at.
    step_cost
        The fitted parts of a step, which tell what being off in an engine that can draft costs; None: nobody knows.
    traffic
        Output tokens by adapter, in any unit; None: all have the same.
    """

    verdicts: Sequence[FleetVerdict]
    cost_model: Result
    gate: Mapping[str, Any]
    target: str
    drafter: str
    adapter_paths: Mapping[str, str]
    provenance: dict[str, Any]
    summaries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    max_loras: int | None = None
    max_lora_rank: int | None = None
    step_cost: Result | None = None
    traffic: Mapping[str, float] | None = None


def write_policy_folder(inputs: FleetInputs, folder: Path) -> dict[str, Any]:
    """Write all files and return the payload of ``pools.json``; the policy comes last, since engines watch it.

    Raises
    ------
    ConfigError, ResultError
        The inputs do not belong together.
    PolicyError
        The engine's own reader refuses the policy.
    """
    if homeless := [verdict.name for verdict in inputs.verdicts if verdict.name not in inputs.adapter_paths]:
        raise ConfigError(f"adapter {printable(homeless[0])}: nobody says where it lies; name its folder")
    model = CostModel.from_dict(inputs.cost_model.payload)
    settings, rules = at_load_of(inputs.verdicts, gate_settings(inputs.gate)), inputs.gate["policy"]
    payload = fleet_policy(inputs.verdicts, model, settings=settings, policy=rules)
    pools = plan_pools(
        inputs.verdicts, payload, settings=settings, is_hot_adapter_merged=rules["is_hot_adapter_merged"]
    )
    index = headline_index(payload, settings)
    headline = _sizes(payload)[index]
    # Pools draft alike, so they go by each verdict alone; the one engine's depths are for the mix in it.
    payload, told = _for_one_engine(inputs, payload, model, index)
    plan = pool_plan(pools, payload, settings=settings, serving=_serving(inputs, model, folder), **told)
    evidence = _evidence(inputs)
    common = {"evidence": evidence, "tier": inputs.cost_model.tier, "provenance": inputs.provenance}
    policy = result_bytes(kind="policy", payload=payload, **common)
    _check_readable(policy, payload)
    fleet = Fleet(inputs.verdicts, payload, pools, model, settings, headline, inputs.cost_model.tier, evidence, **told)
    files = {
        **_profiles(inputs, model, folder, evidence),
        folder / POOLS: result_bytes(kind="pool_plan", payload=plan, **common),
        folder / SCRIPT: pool_script(plan).encode(),
        folder / PAGE: fleet_page(fleet).encode(),
        folder / POLICY: policy,
    }
    with _alone_in(folder):
        write_all_atomically(files)
        # Profiles of adapters that have left the fleet would stay for ever.
        for stale in set((folder / PROFILES).glob(f"*{_PROFILE_SUFFIX}")) - set(files):
            stale.unlink()
    return plan


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Let two runs write one after the other, so that all files of a folder are of one run."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def profile_path(folder: Path, name: str) -> Path:
    """Return where an adapter's profile goes; a name that would make no good file name is hashed."""
    try:
        check_type(AdapterName, name, "name")
    except LoraSpecError:
        name = "adapter-" + hashlib.sha256(name.encode()).hexdigest()[:16]
    return folder / PROFILES / f"{name}{_PROFILE_SUFFIX}"


def _for_one_engine(
    inputs: FleetInputs, payload: dict[str, Any], model: CostModel, index: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the policy with depths for the mix, what off costs at the load of this index, and what drafting gains.

    Without parts of a step the policy stays as it is, and neither is known.
    """
    if inputs.step_cost is None:
        return payload, {"off_tax": None, "gains": ()}
    step_cost = StepCostModel.from_dict(inputs.step_cost.payload)
    sizes, context = _sizes(payload), inputs.gate["headline_load"]["num_context_tokens"]
    with naming(inputs.step_cost.path):
        check_tier(inputs.step_cost, inputs.cost_model.tier)
        check_same_engine(step_cost, model)
        check_loads_are_timed(step_cost, sizes, max_extrapolation=gate_settings(inputs.gate).max_extrapolation)
        engine = OneEngine.of(model, step_cost, sizes, num_context_tokens=context)
    depths = depths_for_mix(inputs.verdicts, payload["adapters"], engine, batch_sizes=sizes, shares=inputs.traffic)
    told = {
        "off_tax": off_in_engine_tax(step_cost, batch_size=sizes[index], num_context_tokens=context),
        "gains": drafting_gains(inputs.verdicts, depths, engine, batch_sizes=sizes, shares=inputs.traffic),
    }
    return {**payload, "adapters": depths}, told


def _sizes(payload: Mapping[str, Any]) -> list[int]:
    return [load["max_batch_size"] for load in payload["loads"]]


def _evidence(inputs: FleetInputs) -> Evidence:
    results = [inputs.cost_model, *([] if inputs.step_cost is None else [inputs.step_cost])]
    classes = {item.evidence for item in (*results, *inputs.verdicts)}
    return "measured" if classes == {"measured"} else "synthetic-smoke"


def _serving(inputs: FleetInputs, model: CostModel, folder: Path) -> Serving:
    engine, timed = model.context.get("engine"), model.context.get("lora_rank")
    rank = inputs.max_lora_rank or (timed if isinstance(timed, int) and timed > 0 else _DEFAULT_LORA_RANK)
    return Serving(
        target=inputs.target,
        drafter=inputs.drafter,
        adapter_paths=inputs.adapter_paths,
        policy_path=str(folder / POLICY),
        merged_dir=str(folder / "merged"),
        max_lora_rank=rank,
        max_loras=inputs.max_loras,
        engine=engine if isinstance(engine, Mapping) else {},
        weights_sha256={verdict.name: verdict.weights_sha256 for verdict in inputs.verdicts},
    )


def _profiles(inputs: FleetInputs, model: CostModel, folder: Path, evidence: Evidence) -> dict[Path, bytes]:
    engine = model.context.get("engine")
    known = engine if isinstance(engine, Mapping) else {}
    conditions = {
        "engine": known.get("engine"),
        "engine_version": known.get("vllm"),
        "dtype": known.get("dtype"),
        "sampling": "greedy; drafts by argmax",
        "counted_by": "replay of the drafter over the adapter's recorded texts",
        "tier": inputs.cost_model.tier,
        "evidence": evidence,
    }
    return {
        profile_path(folder, verdict.name): json_bytes(
            speculation_profile(verdict, inputs.summaries.get(verdict.name), conditions=conditions)
        )
        for verdict in inputs.verdicts
    }


def _check_readable(data: bytes, payload: Mapping[str, Any]) -> None:
    """Refuse to write a policy that an engine would refuse to read."""
    try:
        policy_file.parse_policy(
            data, max_depth=payload["max_num_speculative_tokens"], known_adapters=set(payload["adapters"])
        )
    except policy_file.PolicyError as err:
        raise PolicyError(f"the policy would be refused by the engine: {err}") from err
