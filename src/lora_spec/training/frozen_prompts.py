"""Prompts of every set and role, made from their seeds and held against their frozen hashes.

Roles are slices of one seeded stream, so that no prompt serves two of them. Own prompts come from a domain's eval
split and common ones from its calibration split, so that no prompt of a domain serves as both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lora_spec.config.domains import CHAT
from lora_spec.errors import ConfigError
from lora_spec.provenance import sha256_of_json
from lora_spec.training.chat_prompts import chat_prompts
from lora_spec.training.domains import Split, domain_prompts

_SPLITS: dict[str, Split] = {"own": "eval", "common": "calibration"}


@dataclass(frozen=True)
class FrozenPrompts:
    """The prompts of one domain in one role."""

    prompt_set: str
    role: str
    domain: str
    prompts: tuple[str, ...]
    max_tokens: int
    temperature: float
    license: str
    sha256: str

    def prompt_id(self, index: int) -> str:
        """Return the name by which records refer to a prompt: domains with the same prompts share it."""
        return f"{self.sha256[:12]}-{index:04d}"

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "FrozenPrompts":
        """Rebuild from JSON data."""
        return cls(**{**data, "prompts": tuple(data["prompts"])})


def _make(prompt_set: str, domain: str, first: int, end: int, seed: int) -> list[str]:
    # All held-out chat prompts, of whatever split: only for a tier whose common prompts are few.
    if domain == CHAT:
        return chat_prompts(end, seed=seed, held_out=True)[first:]
    return domain_prompts(domain, _SPLITS[prompt_set], num=end, seed=seed)[first:]


def _freeze(entry: Mapping[str, Any], domain: str, frozen_sha256: str | None) -> FrozenPrompts:
    first, end = entry["first_prompt"], entry["first_prompt"] + entry["num_prompts"]
    prompts = _make(entry["prompt_set"], domain, first, end, entry["seed"])
    sha256 = sha256_of_json(prompts)
    if frozen_sha256 not in (None, sha256):
        raise ConfigError(
            f"prompts.yaml, set {entry['prompt_set']!r}, role {entry['role']!r}, domain {domain!r}: the prompts hash "
            f"to {sha256}, frozen is {frozen_sha256}; the generator changed, so records of the frozen prompts no "
            "longer compare: restore it, or freeze the new hash and measure everything again"
        )
    kept = {key: entry[key] for key in ("prompt_set", "role", "max_tokens", "temperature", "license")}
    return FrozenPrompts(domain=domain, prompts=tuple(prompts), sha256=sha256, **kept)


def freeze_prompts(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return all prompts of a tier as plain data, one item per set, role and domain.

    Raises
    ------
    ConfigError
        A list differs from its frozen hash, or a prompt is both own traffic and common.
    """
    lists = [(entry, domain, sha256) for entry in entries for domain, sha256 in sorted(entry["sha256"].items())]
    frozen = [_freeze(*one) for one in lists]
    _refuse_shared_prompts(frozen)
    return [asdict(one) for one in frozen]


def _refuse_shared_prompts(frozen: Sequence[FrozenPrompts]) -> None:
    own = {prompt: one.domain for one in frozen if one.prompt_set == "own" for prompt in one.prompts}
    for one in frozen:
        shared = [prompt for prompt in one.prompts if one.prompt_set == "common" and prompt in own]
        if shared:
            raise ConfigError(
                f"prompts.yaml: {shared[0]!r} stands in the own prompts of domain {own[shared[0]]!r} and in the common "
                f"ones of {one.domain!r}; name a domain of adapters there, such as self_chat, whose common prompts "
                "come from a split of their own"
            )
