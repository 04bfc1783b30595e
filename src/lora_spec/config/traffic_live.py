"""Block ``live`` of ``traffic.yaml``: what of the traffic is run against a real server, and how long that may take."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from lora_spec.config.fields import ConfigModel, Name, NonNegative, Positive, PositiveCount, Seed, stands_once

LivePolicy = Literal["always_off", "always_standing_k", "best_static_k", "policy_file", "policy_file_live"]


class Scenario(ConfigModel):
    """One kind of traffic that is run live."""

    pattern: Name = Field(description="One of the patterns.")
    cache_mode: Literal["warm", "limited"] = Field(description="One of the cache modes; each mode is a server.")
    request_rate_req_s: Positive = Field(
        description="Offered load, requests per second; below saturation of the slowest policy, or waiting is compared."
    )

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what no two scenarios share: the rate as names of trials tell it."""
        return self.pattern, self.cache_mode, f"{self.request_rate_req_s:g}"


class LiveConfig(ConfigModel):
    """Live trials: every scenario under every policy once per seed, policies in an order drawn anew."""

    scenarios: tuple[Scenario, ...] = Field(min_length=1, description="Kinds of traffic.")
    policies: Annotated[tuple[LivePolicy, ...], AfterValidator(stands_once)] = Field(
        min_length=2, description="Policies; gains are told against best_static_k, which must be among them."
    )
    seeds: Annotated[tuple[Seed, ...], AfterValidator(stands_once)] = Field(
        min_length=1, description="One round of trials per seed; all policies of a round meet the same arrivals."
    )
    num_adapters: PositiveCount = Field(
        description="Adapters in traffic; dealt over the verdicts in turn, in the order of the pool, no domain twice "
        "before all have had one. LoRA slots cost time and memory, so not the whole pool."
    )
    duration_s: Positive = Field(description="Length of the arrivals of one trial, s.")
    warmup_s: NonNegative = Field(description="Start of a trial that is not counted, s: the batch must fill first.")
    drain_s: Positive = Field(description="Time after the last arrival in which requests may still end, s.")
    output_tokens: PositiveCount = Field(description="Output tokens per request; short, so that a trial holds many.")
    max_num_batched_tokens: PositiveCount = Field(
        description="Tokens of one engine step; stated, since the simulator must know it."
    )
    max_other_cores: NonNegative = Field(
        description="Cores that programs beside server and client may use; a trial with more is run again."
    )
    max_wait_s: NonNegative = Field(description="Longest wait for a quiet machine, s, over the whole run.")
    order_seed: Seed = Field(description="Seed of the order of trials.")

    @model_validator(mode="after")
    def _is_sound(self) -> "LiveConfig":
        if "best_static_k" not in self.policies:
            raise ValueError("policies must hold best_static_k, which gains are told against")
        keys = [scenario.key for scenario in self.scenarios]
        if len(set(keys)) < len(keys):
            raise ValueError("scenarios must differ in pattern, cache mode or the first six digits of their rate")
        if self.warmup_s >= self.duration_s:
            raise ValueError(f"warmup_s {self.warmup_s:g} leaves nothing of duration_s {self.duration_s:g} to count")
        return self
