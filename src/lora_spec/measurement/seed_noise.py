"""The noise floor: how far acceptance moves between adapters of one recipe that differ in nothing but their seed.

What is seen between seeds on n prompts is chance of training and, since two adapters answer the same prompts unlike,
chance of the prompts. A bootstrap over the prompts, the same draw for all adapters of a group, tells the second; what
is left of the variance is the first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from lora_spec.errors import ConfigError, MeasurementError
from lora_spec.joins import by_adapter
from lora_spec.measurement.effect import paired_counts
from lora_spec.measurement.pooled_effect import PromptDraws
from lora_spec.measurement.record_checks import check_alike
from lora_spec.measurement.summary import SummarySettings
from lora_spec.records import AcceptanceRecord

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SeedNoiseSettings:
    """Names of each group of repeats, of the separate adapters with their sources, and how counts are estimated."""

    groups: tuple[tuple[str, ...], ...]
    separate: Mapping[str, str]
    estimating: SummarySettings

    def __post_init__(self) -> None:
        repeats = [name for group in self.groups for name in group]
        if any(len(group) < 2 for group in self.groups):
            raise ConfigError(f"groups {list(map(list, self.groups))}: a group of repeats has two adapters or more")
        if len(set(repeats)) < len(repeats):
            raise ConfigError("an adapter stands twice among the groups; name it once")
        if self.groups and not self.separate:
            raise ConfigError("separate names no adapter; name those that the spread of repeats is held against")

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "SeedNoiseSettings":
        """Rebuild from a script's JSON flag."""
        groups = tuple(tuple(group) for group in data["groups"])
        return cls(groups, dict(data["separate"]), SummarySettings(**data["estimating"]))


@dataclass(frozen=True)
class PooledSd:
    """A standard deviation within groups, in the unit of its quantity, with its chi-square interval."""

    sd: float
    lower: float
    upper: float
    level: float
    degrees_of_freedom: int


def pooled_sd(groups: Sequence[ArrayLike], *, level: float) -> PooledSd | None:
    """Return the pooled sample standard deviation of values within groups; None without a group of two.

    s^2 = sum_g (m_g - 1) s_g^2 / f with f = sum_g (m_g - 1) degrees of freedom, and f s^2 / sigma^2 is chi-square where
    values are normal with one sigma: with few seeds the interval is wide, and that is the finding.
    """
    arrays = [np.asarray(group, float) for group in groups]
    freedom = sum(len(group) - 1 for group in arrays if len(group))
    if not freedom:
        return None
    total = float(sum(((group - group.mean()) ** 2).sum() for group in arrays if len(group)))
    high, low = chi2.ppf([(1 + level) / 2, (1 - level) / 2], freedom)
    sd, lower, upper = (float((total / divisor) ** 0.5) for divisor in (freedom, high, low))
    return PooledSd(sd, lower, upper, level, freedom)


def between_groups_share(values: ArrayLike, groups: Sequence[str]) -> float | None:
    """Return the share of the sum of squares that lies between groups, in [0, 1]; None where values do not vary.

    1 - sum_g sum_i (x_gi - mean_g)^2 / sum_gi (x_gi - mean)^2, the squared correlation ratio.
    """
    array, names = np.asarray(values, float), np.array(groups)
    total = float(((array - array.mean()) ** 2).sum())
    within = sum(float(((array[names == name] - array[names == name].mean()) ** 2).sum()) for name in set(groups))
    return 1 - within / total if total > 0 else None


def prompt_variance(draws: Array) -> Array:
    """Return the part of a group's sample variance that the finite number of prompts alone is expected to give.

    Parameters
    ----------
    draws
        Shape ``(num_adapters, num_draws, num_quantities)``; one draw holds the same prompts for all adapters.

    Returns
    -------
    ndarray
        Shape ``(num_quantities,)``: sum over adapters of the variance over draws of (value - group mean) / (m - 1).
    """
    centred = draws - draws.mean(axis=0)
    return centred.var(axis=1).sum(axis=0) / (len(draws) - 1)


@dataclass(frozen=True, eq=False)
class _Measured:
    """One adapter: values of all quantities ``(num_quantities,)`` and their draws ``(num_draws, num_quantities)``."""

    prompt_ids: tuple[str, ...]
    values: Array
    draws: Array


def _names(depth: int) -> list[str]:
    return ["acceptance_length", "acceptance_length_difference", *(f"a_{k}" for k in range(1, depth + 1))]


def _statistics(paired: Array, per_position: Array) -> Array:
    """Return E_K, E_K minus the base's, and a_1..a_D from column sums of shape ``(num_draws, columns)``."""
    base_drafts, base_accepted, drafts, accepted = paired.T
    if not (base_drafts.all() and drafts.all() and per_position[:, 0].all()):
        raise MeasurementError("some resamples hold no draft at all; measure more prompts or longer outputs")
    length, rates = accepted / drafts, per_position[:, 1:] / per_position[:, :1]
    return np.column_stack([1 + length, length - base_accepted / base_drafts, rates])


def _measured(record: AcceptanceRecord, prompt_set: str, how: SummarySettings, draws: PromptDraws) -> _Measured:
    replay = record.chosen("replay")
    paired = paired_counts(replay, prompt_set, how.num_speculative_tokens, how.min_drafts)
    deepest = {
        row.prompt_id: row.counts
        for row in replay
        if (row.arm, row.prompt_set, row.counts.num_speculative_tokens) == ("adapted", prompt_set, record.max_depth)
    }
    ids = tuple(sorted(deepest))
    per_position = np.array([[deepest[i].num_drafts, *deepest[i].num_accepted_tokens_per_pos] for i in ids], float)
    weights, whole = draws.weights(ids), np.ones((1, len(ids)))
    values, drawn = (_statistics(w @ paired, w @ per_position) for w in (whole, weights))
    return _Measured(ids, values[0], drawn)


def seed_noise(records: Sequence[AcceptanceRecord], settings: SeedNoiseSettings) -> dict[str, Any]:
    """Return the noise floor on each prompt set, as plain data; None in their place where nothing was repeated.

    Raises
    ------
    MeasurementError, ResultError
        An adapter of the settings has no record, repeats were measured on different prompts, or the records were not
        counted in the same way.
    """
    by_name = by_adapter(records, lambda record: record.adapter, what="acceptance records")
    check_alike(records)
    wanted = {*settings.separate, *(name for group in settings.groups for name in group)}
    if missing := sorted(wanted - set(by_name)):
        raise MeasurementError(f"adapter {missing[0]!r} has no record; measure it, or leave it out of the settings")
    if not settings.groups:
        sentence = "no repeats were measured, so nothing tells the noise of training"
        return {"num_groups": 0, "prompt_sets": None, "sentence": sentence}
    sets = [_on_prompt_set(by_name, name, settings) for name in ("own", "common")]
    return {"num_groups": len(settings.groups), "prompt_sets": sets, "sentence": _sentence(sets[0])}


def _on_prompt_set(
    by_name: dict[str, AcceptanceRecord], prompt_set: str, settings: SeedNoiseSettings
) -> dict[str, Any]:
    how = settings.estimating
    draws = PromptDraws(how.num_bootstrap_draws, how.seed)
    chosen = dict.fromkeys([*settings.separate, *(name for group in settings.groups for name in group)])
    found = {name: _measured(by_name[name], prompt_set, how, draws) for name in chosen}
    groups = [[found[name] for name in names] for names in settings.groups]
    for names, group in zip(settings.groups, groups, strict=True):
        if len({member.prompt_ids for member in group}) > 1:
            raise MeasurementError(f"{', '.join(names)}: repeats were measured on different prompts; measure again")
    separate = np.array([found[name].values for name in settings.separate])
    columns = enumerate(_names(groups[0][0].values.size - 2))
    return {
        "prompt_set": prompt_set,
        "num_speculative_tokens": how.num_speculative_tokens,
        "groups": [_group(names, group) for names, group in zip(settings.groups, groups, strict=True)],
        "quantities": {
            name: _quantity(column, groups, separate[:, column], tuple(settings.separate.values()), how)
            for column, name in columns
        },
    }


def _group(names: Sequence[str], group: Sequence[_Measured]) -> dict[str, Any]:
    """Return the raw values of one group, adapter by adapter."""
    columns = enumerate(_names(group[0].values.size - 2))
    return {
        "adapters": list(names),
        "num_prompts": len(group[0].prompt_ids),
        "values": {name: [float(member.values[column]) for member in group] for column, name in columns},
    }


def _quantity(
    column: int,
    groups: Sequence[Sequence[_Measured]],
    separate: Array,
    sources: Sequence[str],
    how: SummarySettings,
) -> dict[str, Any]:
    """Return one quantity's spread between seeds, what of it is chance of prompts, and the spread between adapters."""
    pooled = pooled_sd([[member.values[column] for member in group] for group in groups], level=how.level)
    weights = np.array([len(group) - 1 for group in groups], float)
    parts = [float(prompt_variance(np.array([m.draws for m in group]))[column]) for group in groups]
    of_prompts = float(weights @ parts / weights.sum())
    alone = np.mean([member.draws[:, column].var() for group in groups for member in group])
    between = float(separate.var(ddof=1)) if len(separate) > 1 else None
    return {
        "between_seeds": asdict(pooled),
        "expected_of_prompts_sd": of_prompts**0.5,
        "training_sd": max(0.0, pooled.sd**2 - of_prompts) ** 0.5,
        "one_adapter_prompts_sd": float(alone**0.5),
        "between_adapters_sd": None if between is None else between**0.5,
        "num_adapters": len(separate),
        "share_of_variance": pooled.sd**2 / between if between else None,
        "num_sources": len(set(sources)),
        "between_sources_share": between_groups_share(separate, sources),
    }


def _sentence(on_own: dict[str, Any]) -> str:
    found = on_own["quantities"]["acceptance_length"]
    seeds, share = found["between_seeds"], found["share_of_variance"]
    text = (
        f"between seeds of one recipe, acceptance length at K={on_own['num_speculative_tokens']} on own traffic has a "
        f"standard deviation of {seeds['sd']:.3f} [{seeds['lower']:.3f}, {seeds['upper']:.3f}] "
        f"({seeds['degrees_of_freedom']} degrees of freedom), {found['expected_of_prompts_sd']:.3f} of it expected of "
        "the prompts alone"
    )
    if share is None:
        return text
    return (
        f"{text}; between {found['num_adapters']} adapters it is {found['between_adapters_sd']:.3f}, so seeds make "
        f"{share:.1%} of that variance, and {found['between_sources_share']:.1%} of it lies between their "
        f"{found['num_sources']} sources"
    )
