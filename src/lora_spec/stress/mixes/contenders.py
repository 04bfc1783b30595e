"""Who is compared over mixes: baselines, and verdicts by what they rest on; none is told more than it may know."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from lora_spec.errors import ConfigError
from lora_spec.policy.policy_file import Policy
from lora_spec.stress.mixes.engine_by_mix import EngineByMix
from lora_spec.stress.mixes.serving import Horizon, ServedMix, best_candidate_goodput
from lora_spec.stress.policies.base import Rates, Situation
from lora_spec.stress.policies.registry import make_candidates

Goodput = Callable[[ServedMix, int], float]
"""Tokens per ms of a mix; the seed is for policies that try things out."""

PLAIN = "plain"
"""The variant of a policy that has no other, or of verdicts as they stand."""

DEPTHS_BY_MIX, ENGINE_BY_MIX = "depths for the mix", "engine for the mix"
"""Variants of verdicts: depths that suit the mix, none deeper than a verdict alone; and no drafter where none pays."""

_ALONE, _SWITCH = "predictor_gated_shortened_depth", "predictor_gated_disablement"
_FILE, _LIVE = "policy_file", "policy_file_live"


@dataclass(frozen=True)
class Contender:
    """One policy with what it is told.

    Parameters
    ----------
    policy, basis, variant
        What it is; what it knows of an adapter; how it differs from another one of the same two.
    is_ours
        Whether the bars are for it: verdicts of the gate.
    """

    policy: str
    basis: str
    variant: str
    goodput: Goodput
    is_ours: bool = False


@dataclass(frozen=True)
class Knowledge:
    """What contenders may be told of adapters, by adapter name.

    Parameters
    ----------
    base
        Acceptance by position of the unadapted target on the adapter's own prompts.
    predicted
        By feature mode, what was predicted by fits that never saw the adapter's source.
    probed
        By number of prompts, what a direct probe counted.
    policies
        By feature mode and variant, the policy file of the verdicts.
    merged_time_ratio
        By batch size, T_0 of an engine without LoRA over T_0 with it; None where nobody has timed that.
    engines
        By feature mode, who says whether a mix's engine gets a drafter; empty where the tax of off is not known.
    """

    base: Mapping[str | None, Rates]
    predicted: Mapping[str, Mapping[str | None, Rates]]
    probed: Mapping[int, Mapping[str | None, Rates]]
    policies: Mapping[tuple[str, str], Policy]
    merged_time_ratio: Mapping[int, float] | None = None
    engines: Mapping[str, EngineByMix] = field(default_factory=dict)


@dataclass(frozen=True)
class Field:
    """What all contenders share."""

    situation: Situation
    horizon: Horizon
    hot_traffic_share: float

    def by_policy(self, name: str, basis: str, *, told: Mapping[str, Any] | None = None, **fields: Any) -> Contender:
        """Return a policy of the registry, told what ``told`` says of the situation."""
        situation = replace(self.situation, **(told or {}))
        shown = {"policy": name, "variant": PLAIN, **fields}
        return Contender(basis=basis, goodput=partial(_served, name, situation, self.horizon), **shown)


def make_contenders(shared: Field, knows: Knowledge, *, gate_mode: str) -> list[Contender]:
    """Return all contenders, baselines first.

    Parameters
    ----------
    gate_mode
        Feature mode of the gate's own predictor, which the predictor-gated baselines ask too.
    """
    off = Contender("always_off", "nothing", PLAIN, off_elsewhere)
    found = [off, shared.by_policy("always_standing_k", "nothing")]
    found.append(shared.by_policy("best_static_k", "hindsight"))
    found.append(shared.by_policy(_ALONE, "base", policy="best_for_the_base", told={"expected": knows.base}))
    found += [shared.by_policy(name, "traffic") for name in ("rolling_acceptance_gate", "online_bandit")]
    gated = [(_SWITCH, gate_mode), *((_ALONE, mode) for mode in knows.predicted)]
    found += [shared.by_policy(name, mode, told={"expected": knows.predicted[mode]}) for name, mode in gated]
    for num_prompts, rates in knows.probed.items():
        basis = f"probe of {num_prompts} prompts"
        found.append(shared.by_policy(_ALONE, basis, policy="direct_probe", told={"expected": rates}))
    if knows.merged_time_ratio is not None:
        merged = partial(_merged, knows.merged_time_ratio, shared.hot_traffic_share, shared.situation.standing_depth)
        found.append(Contender("merged_own_pool", "traffic", PLAIN, merged))
    return [*found, *_ours(shared, knows)]


def _ours(shared: Field, knows: Knowledge) -> Iterator[Contender]:
    """Yield the verdicts of every mode and variant, the plain ones also for the mix and with the live rule."""
    for (mode, variant), policy in knows.policies.items():
        ours = {"policy": "verdicts", "is_ours": True, "told": {"policy": policy}}
        as_told = shared.by_policy(_FILE, mode, variant=variant, **ours)
        yield as_told
        if variant == PLAIN and mode in knows.engines:
            for name, is_engine_chosen in ((DEPTHS_BY_MIX, False), (ENGINE_BY_MIX, True)):
                yield replace(as_told, variant=name, goodput=partial(_for_mix, knows.engines[mode], is_engine_chosen))
        if variant == PLAIN and policy.live is not None:
            yield shared.by_policy(_LIVE, mode, variant="live rule", **ours)


def _served(name: str, situation: Situation, horizon: Horizon, mix: ServedMix, seed: int) -> float:
    candidates = make_candidates(name, replace(situation, seed=seed))
    return best_candidate_goodput(candidates, mix, horizon=horizon, seed=seed)


def _for_mix(engine: EngineByMix, is_engine_chosen: bool, mix: ServedMix, seed: int) -> float:
    depths = engine.depths(mix)
    if is_engine_chosen and not engine.is_drafter_worth_it(mix, depths):
        return off_elsewhere(mix)
    return mix.goodput([depths[name] for name in mix.names])


def off_elsewhere(mix: ServedMix, seed: int = 0) -> float:
    """Return tokens per ms of an engine without a drafter."""
    return mix.goodput([0] * len(mix.names)) * (1 + mix.off_in_engine_tax)


def _merged(ratios: Mapping[int, float], hot_share: float, standing: int, mix: ServedMix, seed: int) -> float:
    """Return tokens per ms and engine where each hot adapter has merged engines of its own and the rest stands at K.

    Engine time per token adds up over the pools, every one of which has all its batch places taken.
    """
    size = mix.steps.batch_size
    if size not in ratios:
        raise ConfigError(f"no step without LoRA is known at batch size {size}; fit the parts of a step")
    is_hot = mix.shares >= hot_share
    merged_ms = ratios[size] * float(mix.steps.alike_ms[0]) / size
    spent = merged_ms * float(mix.shares[is_hot].sum())
    if not is_hot.all():
        share = float(mix.shares[~is_hot].sum())
        names = [name for name, hot in zip(mix.names, is_hot, strict=True) if not hot]
        rest = ServedMix(names, mix.lengths[~is_hot], mix.shares[~is_hot] / share, mix.steps)
        spent += share / rest.goodput([standing] * len(names))
    return 1 / spent
