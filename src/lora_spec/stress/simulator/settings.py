"""What is simulated: a server's limits, and the adapters it serves."""

from dataclasses import dataclass

from lora_spec.errors import ConfigError


@dataclass(frozen=True)
class ServerSettings:
    """Limits of one engine, under vLLM's names.

    Parameters
    ----------
    max_loras
        Distinct adapters in one batch, and adapters that lie ready for it.
    max_cpu_loras
        Adapters in main memory, from where one is made ready in ``cached_load_share`` of the time of a load.
    draft_slots
        Tokens of the budget that the scheduler sets aside for each request; 1 with a draft model, 0 with n-grams
        (``SpeculativeConfig.max_num_new_slots_for_drafting``).
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    max_loras: int
    max_cpu_loras: int
    cached_load_share: float
    draft_slots: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.max_loras <= self.max_cpu_loras:
            raise ConfigError(
                f"max_loras {self.max_loras} and max_cpu_loras {self.max_cpu_loras}: one adapter at least must "
                "fit, and main memory must hold as many as a batch; vLLM refuses it too"
            )
        if self.max_num_seqs < 1 or self.max_num_batched_tokens <= self.draft_slots:
            raise ConfigError(
                f"max_num_seqs {self.max_num_seqs} and max_num_batched_tokens {self.max_num_batched_tokens} with "
                f"{self.draft_slots} draft slots leave room for no request; raise them"
            )
        if not 0 <= self.cached_load_share <= 1:
            raise ConfigError(f"cached_load_share {self.cached_load_share} is no share; give a number from 0 to 1")


@dataclass(frozen=True)
class SimulatedAdapter:
    """An adapter in traffic; the name None stands for the base model, whose rank means nothing.

    Parameters
    ----------
    acceptance_rate_per_pos
        a_k: the share of draft steps whose first k drafts are all accepted, falling with k.
    """

    name: str | None
    lora_rank: int
    acceptance_rate_per_pos: tuple[float, ...]

    def __post_init__(self) -> None:
        rates = self.acceptance_rate_per_pos
        if any(not 0 <= later <= rate for rate, later in zip((1.0, *rates), rates, strict=False)):
            raise ConfigError(f"adapter {self.name!r}: acceptance rates {rates} must be fractions that fall")
