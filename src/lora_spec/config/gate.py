"""``gate.yaml``: when a verdict is green, amber, red or abstain, and how the predictor behind it is fitted."""

from typing import Literal

from pydantic import Field, model_validator

from lora_spec.config.fields import (
    BatchSize,
    BatchSizes,
    ConfigModel,
    Depth,
    Fraction,
    NumDraws,
    NumFolds,
    NumPrompts,
    OpenFraction,
    Positive,
    PositiveCount,
    PositiveDepth,
    Seed,
)
from lora_spec.config.gate_policy import PolicyConfig


class HeadlineLoadConfig(ConfigModel):
    """The load that the one-word verdict is about; other loads are on the decision map."""

    batch_size: BatchSize = Field(description="Requests per batch.")
    num_context_tokens: PositiveCount = Field(description="Context per request, tokens.")


class ElasticNetConfig(ConfigModel):
    """A line in all columns, most of them shrunk to nothing."""

    penalties: tuple[Positive, ...] = Field(min_length=1, description="Grid of penalties (scikit-learn's alpha).")
    l1_ratios: tuple[Fraction, ...] = Field(min_length=1, description="Grid of the L1 share of the penalty.")


class GamConfig(ConfigModel):
    """Smooth curves in a few columns, added up."""

    num_curves: PositiveCount = Field(description="Columns that get a curve, at most.")
    num_basis: PositiveCount = Field(ge=4, description="B-splines per curve.")
    penalties: tuple[Positive, ...] = Field(
        min_length=1, description="Grid of weights of a curve's squared second derivative."
    )


class GradientBoostingConfig(ConfigModel):
    """Small trees, added up."""

    num_trees: tuple[PositiveCount, ...] = Field(min_length=1, description="Grid of the number of trees.")
    learning_rate: Fraction = Field(gt=0, description="Share of each tree that is added.")
    num_leaves: PositiveCount = Field(ge=2, description="Leaves of a tree, at most.")
    min_adapters_per_leaf: PositiveCount = Field(description="Adapters that a leaf must hold.")
    column_share: Fraction = Field(gt=0, description="Share of the columns that each tree may look at.")


class PredictorConfig(ConfigModel):
    """How the predictor that the gate asks is fitted and when it says that it does not know."""

    model: Literal["elastic_net", "gam", "gradient_boosting"] = Field(
        description="Registered predictor that verdicts rest on; the others are fitted to be compared with it."
    )
    mode: Literal["checkpoint_only", "checkpoint_base", "checkpoint_meta"] = Field(
        description="Column set that the predictor may see; checkpoint_base needs a base_profile in models.yaml."
    )
    elastic_net: ElasticNetConfig = Field(description="Options of the elastic net.")
    gam: GamConfig = Field(description="Options of the additive model.")
    gradient_boosting: GradientBoostingConfig = Field(description="Options of the boosted trees.")
    num_folds: NumFolds = Field(description="Folds of whole domains in the inner cross-validation, at most.")
    min_adapters: PositiveCount = Field(description="With fewer adapters than this the predictor abstains always.")
    min_trials_per_position: PositiveCount = Field(
        description="Drafts that must have reached a position before an adapter says anything about it."
    )
    max_ood_quantile: OpenFraction = Field(
        description="An adapter farther out than this quantile of the training distances is out of distribution."
    )
    seed: Seed = Field(description="Seed of folds and permutations.")


class AbstentionConfig(ConfigModel):
    """Which predicted verdicts are committed: the limit of their doubt is chosen and certified by this rule."""

    max_loss: Fraction = Field(
        description="A committed verdict is wrong if its depth loses more than this share of goodput to the best depth "
        "up to the standing one, at the measured acceptance."
    )
    max_risk: OpenFraction = Field(
        description="The limit is the largest doubt up to which at most this share of verdicts is wrong, on the "
        "sources that choose it."
    )
    confidence: OpenFraction = Field(
        gt=0.5, description="Confidence of the upper bound on wrong verdicts, on the sources that certify."
    )
    seed: Seed = Field(description="Seed of the halving of the sources.")


class ComparisonConfig(ConfigModel):
    """How predictors and nulls are held against each other; fixed before anything is measured."""

    min_sources: PositiveCount = Field(
        ge=2, description="With adapters of fewer domains nothing is compared: an interval over them says nothing."
    )
    num_bootstrap_draws: NumDraws = Field(description="Draws of whole domains behind intervals and paired differences.")
    num_permutations: NumDraws = Field(description="Permutations behind p, whose least value is 1 / (1 + this).")
    base_prompt_set: Literal["common", "own"] = Field(
        description="Prompts whose base acceptance fixes the load of 'the standing depth is a net loss'; the common "
        "ones are there before any adapter is."
    )
    num_calibration_prompts: tuple[NumPrompts, ...] = Field(
        min_length=1,
        description="Sizes of the calibration probe, rising: what checkpoint_calib and the direct probe may see. The "
        "last is that of the whole comparison; at the others the gate's predictor meets the direct probe.",
    )
    min_prevalence: OpenFraction = Field(
        description="With a smaller share of net losses no AUROC is given: a few adapters would make it."
    )
    max_prevalence: OpenFraction = Field(description="The same for the largest share of net losses.")
    seed: Seed = Field(description="Seed of draws and permutations.")

    @model_validator(mode="after")
    def _sizes_rise(self) -> "ComparisonConfig":
        sizes = self.num_calibration_prompts
        if list(sizes) != sorted(set(sizes)):
            raise ValueError(f"num_calibration_prompts {list(sizes)} must rise from one to the next")
        return self

    @model_validator(mode="after")
    def _prevalences_are_a_range(self) -> "ComparisonConfig":
        if self.min_prevalence >= self.max_prevalence:
            raise ValueError(f"min_prevalence {self.min_prevalence} must be below max_prevalence {self.max_prevalence}")
        return self


class GateConfig(ConfigModel):
    """The whole of ``gate.yaml``."""

    standing_num_speculative_tokens: PositiveDepth = Field(
        description="Depth that the fleet runs today, fixed before any adapter is seen."
    )
    candidate_depths: tuple[Depth, ...] = Field(min_length=2, description="Depths that a verdict may choose; 0 is off.")
    level: OpenFraction = Field(description="Level of the intervals that a verdict rests on.")
    max_green_loss: Fraction = Field(
        description="Green while the standing depth loses at most this share of goodput to the best depth."
    )
    dead_band: Fraction = Field(
        description="Speedups within 1 +- this are a tie: the standing configuration stays (no flapping on noise)."
    )
    max_acceptance_length_width: Positive = Field(
        description="Abstain if the interval of the acceptance length is wider than this many tokens."
    )
    max_speedup_width: Positive = Field(description="Abstain if the interval of the speedup is wider than this.")
    hot_traffic_share: Fraction = Field(
        description="An adapter with at least this share of traffic is hot: red may then adapt the drafter."
    )
    default_traffic_share: Fraction = Field(description="Share assumed where an adapter's traffic is not known.")
    max_correction_ms: Positive = Field(description="An amber correction must cost less than this per step, ms.")
    headline_load: HeadlineLoadConfig = Field(description="Load of the headline verdict.")
    map_batch_sizes: BatchSizes = Field(min_length=1, description="Loads drawn on the decision map.")
    num_uncertainty_draws: NumDraws = Field(
        description="Draws that carry the cost model's uncertainty into the speedup."
    )
    seed: Seed = Field(description="Seed of those draws.")
    predictor: PredictorConfig = Field(description="The predictor that the gate asks.")
    abstention: AbstentionConfig = Field(description="When a predicted verdict is committed.")
    comparison: ComparisonConfig = Field(description="How predictors are compared with each other and with nulls.")
    policy: PolicyConfig = Field(description="How verdicts become depths in an engine, and pools of engines.")

    @model_validator(mode="after")
    def _standing_depth_is_a_candidate(self) -> "GateConfig":
        if len(set(self.candidate_depths)) < len(self.candidate_depths):
            raise ValueError("candidate_depths must be distinct")
        for depth, meaning in ((0, "off"), (self.standing_num_speculative_tokens, "the standing depth")):
            if depth not in self.candidate_depths:
                raise ValueError(f"candidate_depths must hold {depth} ({meaning})")
        return self
