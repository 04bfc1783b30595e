"""The requests of one run, all drawn before it starts: every policy meets the same ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lora_spec.errors import ConfigError
from lora_spec.traffic.patterns.registry import make_pattern

MOST_REQUESTS = 1_000_000


@dataclass(frozen=True)
class ScheduledRequest:
    """One request to come.

    Parameters
    ----------
    arrival_s
        Seconds after the start, whether earlier requests are done or not (open loop).
    adapter
        Name of the adapter, None for the base model.
    prompt_index
        Which of the adapter's prompts it sends.
    """

    index: int
    arrival_s: float
    adapter: str | None
    num_prompt_tokens: int
    num_output_tokens: int
    prompt_index: int


def schedule_requests(
    traffic: Mapping[str, Any], pattern: str, *, adapters: Sequence[str | None], rate_req_s: float, seed: int
) -> tuple[ScheduledRequest, ...]:
    """Return the requests of one pattern at one rate, by arrival.

    Which adapter is hot is drawn too: popularity goes down a random order of the adapters, not down the list. Times,
    adapters and lengths have random streams of their own, so that another mix of lengths moves no arrival.

    Parameters
    ----------
    traffic
        The values of ``traffic.yaml``.

    Raises
    ------
    ConfigError
        The pattern is not in ``traffic``, there is no adapter, or requests are too many to hold.
    """
    settings = {item["name"]: item for item in traffic["patterns"]}
    if pattern not in settings or not adapters:
        raise ConfigError(
            f"traffic pattern {pattern!r} over {len(adapters)} adapters; patterns are {', '.join(settings)}, and at "
            "least one adapter is needed"
        )
    expected = rate_req_s * traffic["duration_s"]
    if expected > MOST_REQUESTS:
        raise ConfigError(
            f"{rate_req_s:g} requests a second over {traffic['duration_s']:g} s are {expected:.3g} requests, more than "
            f"{MOST_REQUESTS}; lower the rate or shorten the run"
        )
    process = make_pattern(settings[pattern])
    times_rng, adapters_rng, lengths_rng = np.random.default_rng(seed).spawn(3)
    times = process.arrival_times(rate_req_s, traffic["duration_s"], times_rng)
    by_rank = adapters_rng.permutation(len(adapters))
    ranks = adapters_rng.choice(len(adapters), size=len(times), p=process.shares(len(adapters)))
    mix = traffic["prompt_lengths"]
    lengths = lengths_rng.choice(
        [part["num_prompt_tokens"] for part in mix], size=len(times), p=[part["share"] for part in mix]
    )
    prompts = lengths_rng.integers(2**31, size=len(times))
    return tuple(
        ScheduledRequest(
            index=index,
            arrival_s=float(times[index]),
            adapter=adapters[int(by_rank[ranks[index]])],
            num_prompt_tokens=int(lengths[index]),
            num_output_tokens=traffic["output_tokens"],
            prompt_index=int(prompts[index]),
        )
        for index in range(len(times))
    )
