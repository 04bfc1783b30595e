"""``traffic.yaml``: how requests arrive, how long they are, and how many adapters the server can hold."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from lora_spec.config.fields import ConfigModel, Fraction, Name, NonNegative, Positive, PositiveCount, Seed, stands_once
from lora_spec.config.traffic_live import LiveConfig


class UniformPattern(ConfigModel):
    """All adapters equally popular, Poisson arrivals."""

    kind: Literal["uniform"] = Field(description="Every adapter gets the same share.")
    name: Name = Field(description="Name in results.")


class ZipfPattern(ConfigModel):
    """A few hot adapters and a long tail, Poisson arrivals."""

    kind: Literal["zipf"] = Field(description="Popularity falls with rank to a power.")
    name: Name = Field(description="Name in results.")
    exponent: Positive = Field(description="Exponent of the popularity law; 1 is the classic one.")


class BurstyPattern(ConfigModel):
    """Quiet and busy phases alternate."""

    kind: Literal["bursty"] = Field(description="A two-state modulated Poisson process.")
    name: Name = Field(description="Name in results.")
    burst_factor: Annotated[float, Field(gt=1)] = Field(description="Rate in a burst over the mean rate.")
    mean_burst_s: Positive = Field(description="Mean length of a burst, s.")
    burst_share: Fraction = Field(description="Share of time spent in bursts.")

    @model_validator(mode="after")
    def _quiet_rate_is_not_negative(self) -> "BurstyPattern":
        if self.burst_factor * self.burst_share > 1:
            raise ValueError("burst_factor * burst_share must be at most 1, or the quiet rate would be negative")
        return self


Pattern = Annotated[UniformPattern | ZipfPattern | BurstyPattern, Field(discriminator="kind")]


class CacheMode(ConfigModel):
    """How many adapters the engine holds at once."""

    name: Literal["warm", "limited"] = Field(description="warm: all adapters fit; limited: they compete for slots.")
    slot_share: Annotated[float, Field(gt=0, le=1)] = Field(description="Slots as a share of the adapters in traffic.")


class PromptLength(ConfigModel):
    """One part of the mix of prompt lengths."""

    num_prompt_tokens: PositiveCount = Field(description="Prompt length, tokens.")
    share: Fraction = Field(description="Share of requests of this length.")


class ServiceLevel(ConfigModel):
    """What a request must meet to count as good."""

    max_ttft_ms: Positive = Field(description="Time to first token, ms.")
    max_tpot_ms: Positive = Field(description="Time per output token after the first, ms.")


class TrafficConfig(ConfigModel):
    """The whole of ``traffic.yaml``."""

    patterns: tuple[Pattern, ...] = Field(min_length=1, description="Traffic patterns.")
    cache_modes: tuple[CacheMode, ...] = Field(min_length=1, description="Adapter-cache modes.")
    prompt_lengths: tuple[PromptLength, ...] = Field(min_length=1, description="Mix of prompt lengths.")
    output_tokens: PositiveCount = Field(description="Output tokens per request; fixed, so that runs compare.")
    request_rates_req_s: Annotated[tuple[Positive, ...], AfterValidator(stands_once)] = Field(
        min_length=1, description="Offered loads, requests per second."
    )
    duration_s: Positive = Field(description="Length of one run, s.")
    warmup_s: NonNegative = Field(description="Start of the run that is not counted, s.")
    service_level: ServiceLevel = Field(description="Service level of a good request.")
    seeds: Annotated[tuple[Seed, ...], AfterValidator(stands_once)] = Field(
        min_length=1, description="One trial per seed; policies see the same arrivals."
    )
    live: LiveConfig = Field(description="What of it is run on a real server; the rest is for the simulator.")

    @model_validator(mode="after")
    def _shares_add_up(self) -> "TrafficConfig":
        total = sum(part.share for part in self.prompt_lengths)
        if abs(total - 1) > 1e-9:
            raise ValueError(f"shares of prompt_lengths add up to {total:g}; they must add up to 1")
        for field in ("patterns", "cache_modes"):
            names = [part.name for part in getattr(self, field)]
            if len(set(names)) < len(names):
                raise ValueError(f"names in {field} must be unique")
        return self

    @model_validator(mode="after")
    def _live_scenarios_exist(self) -> "TrafficConfig":
        known = {"pattern": self.patterns, "cache_mode": self.cache_modes}
        for scenario in self.live.scenarios:
            for field, parts in known.items():
                name, names = getattr(scenario, field), [part.name for part in parts]
                if name not in names:
                    raise ValueError(f"live: scenario {field} {name!r} is not defined; there are {', '.join(names)}")
        return self
