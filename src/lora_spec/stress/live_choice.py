"""Which adapters of a pool are in live traffic: of every kind of verdict, by their place in the pool alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lora_spec.errors import ConfigError


@dataclass(frozen=True)
class Candidate:
    """An adapter that may be served, with the verdict that it got before any traffic."""

    name: str
    domain: str
    action: str


ACTIONS = ("green", "amber", "red", "abstain")


def choose_adapters(pool: Sequence[Candidate], num_adapters: int) -> tuple[str, ...]:
    """Return the adapters in traffic, sorted by name.

    Verdicts are served in turn, green first. Each takes the first adapter of its verdict, in the order of the pool,
    whose domain is not in traffic yet; once there is none of that kind, the first of what is left.

    Raises
    ------
    ConfigError
        The pool holds fewer adapters.
    """
    if len(pool) < num_adapters:
        raise ConfigError(
            f"traffic.yaml: live: num_adapters is {num_adapters}, and {len(pool)} adapters have a verdict; lower it"
        )
    waiting: Mapping[str, list[Candidate]] = {a: [item for item in pool if item.action == a] for a in ACTIONS}
    chosen: list[Candidate] = []
    while len(chosen) < num_adapters:
        for action in ACTIONS:
            if waiting[action] and len(chosen) < num_adapters:
                domains = {item.domain for item in chosen}
                taken = next((item for item in waiting[action] if item.domain not in domains), waiting[action][0])
                waiting[action].remove(taken)
                chosen.append(taken)
    return tuple(sorted(item.name for item in chosen))
