"""The prompts that a base profile may read: the common ones of role fit, and no others."""

from dataclasses import dataclass
from pathlib import Path

from typing_extensions import TypedDict

from lora_spec.errors import ConfigError
from lora_spec.training.frozen_prompts import FrozenPrompts
from lora_spec.typed import read_typed_result


class PromptsPayload(TypedDict):
    """What ``freeze_prompts`` writes."""

    sets: list[FrozenPrompts]


@dataclass(frozen=True)
class FitPrompts:
    """User messages of all domains, and the hashes of the frozen lists that they come from."""

    messages: tuple[str, ...]
    sha256: tuple[str, ...]


def read_fit_prompts(path: Path, *, num_prompts: int, tier: str) -> FitPrompts:
    """Return the first prompts of each domain, domains in turn, so that any part of them holds all domains.

    Raises
    ------
    ConfigError
        The file holds no common prompts of role fit, or fewer than asked for.
    """
    payload = read_typed_result(path, "prompts", PromptsPayload, evidence=("contract-only",), tier=tier).payload
    frozen = [FrozenPrompts.from_dict(one) for one in payload["sets"]]
    fit = [one for one in frozen if (one.prompt_set, one.role) == ("common", "fit")]
    shortest = min((len(one.prompts) for one in fit), default=0)
    if shortest < num_prompts:
        raise ConfigError(
            f"{path}: holds {shortest} common prompts of role fit per domain, {num_prompts} are asked for; lower "
            "base_profile.num_prompts in models.yaml or freeze more"
        )
    messages = tuple(one.prompts[index] for index in range(num_prompts) for one in fit)
    return FitPrompts(messages, tuple(one.sha256 for one in fit))
