"""``baselines.yaml``: the policies that a gate must be compared with."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from lora_spec.config.fields import ConfigModel, Flag, Fraction, OpenFraction, PositiveCount, Seed, Text


class _Baseline(ConfigModel):
    is_required: Flag = Field(description="No recovery or gate result counts unless it is compared with this one.")
    is_deployable: Flag = Field(description="False for a bound that needs knowledge no operator has.")
    summary: Text = Field(description="What it does, in one sentence.")


class StaticBaseline(_Baseline):
    """The same depth for all adapters, or none."""

    kind: Literal["static"] = Field(description="One configuration for the whole fleet.")
    name: Literal["always_off", "always_standing_k", "best_static_k", "merged_own_pool"] = Field(
        description="Registered policy."
    )


class PredictorBaseline(_Baseline):
    """A depth per adapter from a prediction."""

    kind: Literal["predictor_gated"] = Field(description="Chooses per adapter, before traffic, from predictions.")
    name: Literal["predictor_gated_disablement", "predictor_gated_shortened_depth"] = Field(
        description="Registered policy."
    )


class RollingBaseline(_Baseline):
    """Watches acceptance while serving."""

    kind: Literal["online"] = Field(description="Chooses per adapter from live acceptance.")
    name: Literal["rolling_acceptance_gate", "online_bandit"] = Field(description="Registered policy.")
    window_drafts: PositiveCount = Field(description="Drafts that a decision looks back on.")
    min_acceptance_rate: Fraction = Field(description="Speculation stops below this acceptance rate (gate only).")
    exploration_share: OpenFraction = Field(description="Share of windows that try another depth (bandit only).")


class ProbeBaseline(_Baseline):
    """Measures a few prompts first."""

    kind: Literal["probe"] = Field(description="Runs the adapter on a few prompts, then decides.")
    name: Literal["direct_probe"] = Field(description="Registered policy.")
    num_prompts: tuple[PositiveCount, ...] = Field(min_length=1, description="Sizes of the probe, prompts.")


class BoundBaseline(_Baseline):
    """A bound that nobody can deploy."""

    kind: Literal["bound"] = Field(description="Knows the measured acceptance of every adapter.")
    name: Literal["oracle"] = Field(description="Registered bound.")


Baseline = Annotated[
    StaticBaseline | PredictorBaseline | RollingBaseline | ProbeBaseline | BoundBaseline, Field(discriminator="kind")
]


class MixesConfig(ConfigModel):
    """The mixes of adapters over which policies are compared by the measured table, and the bars for the gate's own."""

    patterns: tuple[Text, ...] = Field(
        min_length=1, description="Names of patterns of traffic.yaml: they say how popular each adapter of a mix is."
    )
    num_adapters: tuple[PositiveCount, ...] = Field(
        min_length=1, description="Adapters of a mix, one size after another."
    )
    num_mixes: PositiveCount = Field(le=10_000, description="Mixes drawn for each pattern and size.")
    requests_per_adapter: PositiveCount = Field(
        description="Requests, in the mean over a mix's adapters, that a policy which learns is judged over, from its "
        "first step on; their length is output_tokens of traffic.yaml."
    )
    max_mean_regret: Fraction = Field(description="Bar for the mean share of the oracle's goodput that is lost.")
    max_p95_regret: Fraction = Field(description="Bar for its 95th percentile over mixes and loads.")
    max_tpot_loss: Fraction = Field(
        description="No adapter at any load may be slower than this, against off or the standing depth, with its whole "
        "interval."
    )
    tpot_level: OpenFraction = Field(description="Level of that interval.")
    seed: Seed = Field(description="Seed of mixes, of what is true in them, and of policies that try things out.")


class BaselinesConfig(ConfigModel):
    """The whole of ``baselines.yaml``."""

    baselines: tuple[Baseline, ...] = Field(min_length=1, description="The registry, one entry per policy.")
    mixes: MixesConfig = Field(description="What the registry is compared on, and the bars for verdicts.")

    @model_validator(mode="after")
    def _is_complete(self) -> "BaselinesConfig":
        names = [baseline.name for baseline in self.baselines]
        if len(set(names)) < len(names):
            raise ValueError("baseline names must be unique")
        required = {baseline.name for baseline in self.baselines if baseline.is_required}
        missing = {"predictor_gated_disablement", "predictor_gated_shortened_depth"} - required
        if missing:
            raise ValueError(f"{' and '.join(sorted(missing))} must be listed with is_required: true")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Return the baselines' names in file order."""
        return tuple(baseline.name for baseline in self.baselines)
