"""Prompts of live traffic: each adapter's own, at the lengths of the schedule."""

from collections.abc import Mapping, Sequence

from lora_spec.errors import ConfigError
from lora_spec.traffic.schedule import ScheduledRequest
from lora_spec.training.frozen_prompts import FrozenPrompts

Tokens = tuple[int, ...]


def own_prompts(frozen: Sequence[FrozenPrompts], domains: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the prompts of each adapter's own traffic: the frozen evaluation prompts of its domain.

    Raises
    ------
    ConfigError
        A domain has none.
    """
    by_domain = {p.domain: p.prompts for p in frozen if (p.prompt_set, p.role) == ("own", "evaluation")}
    if missing := sorted(set(domains.values()) - set(by_domain)):
        raise ConfigError(f"prompts.yaml: no own evaluation prompts of domain {missing[0]!r}; freeze some")
    return {adapter: by_domain[domain] for adapter, domain in domains.items()}


class OwnTraffic:
    """Gives the tokens of a request's prompt.

    Parameters
    ----------
    encoded
        By adapter, its prompts under the chat template.
    """

    def __init__(self, encoded: Mapping[str, Sequence[Tokens]]) -> None:
        self._encoded = encoded

    def __call__(self, request: ScheduledRequest) -> Tokens:
        """Return a prompt of exactly the scheduled length.

        It ends as the drawn prompt does, so that the answer is one to it: what is too long loses its beginning, what
        is too short is preceded by the adapter's other prompts.
        """
        prompts = self._encoded[request.adapter or ""]
        place = request.prompt_index % len(prompts)
        tokens = prompts[place]
        while len(tokens) < request.num_prompt_tokens:
            place = (place - 1) % len(prompts)
            tokens = prompts[place] + tokens
        return tokens[-request.num_prompt_tokens :]
