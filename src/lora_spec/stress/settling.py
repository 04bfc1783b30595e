"""A server brought to its working set before its memory is judged.

An engine keeps things by what it has met: on a CPU, vLLM 0.32 with oneDNN keeps kernels for the numbers of tokens that
steps had (the last 128 for each matrix, the last 1,024 for all), and the pages of its key-value cache once they were
written. Both are bounded, and filled by new kinds of step, not by time: mixed traffic takes an hour to meet them all.
Here they are met on purpose, in minutes. What grows after that grows with traffic, and may be a leak.
"""

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lora_spec.stress.live import LiveRun
from lora_spec.stress.load_generator import send_all
from lora_spec.stress.process_tree import tree_rss_mib
from lora_spec.traffic.schedule import ScheduledRequest

NUM_SINGLE = 160
"""Prompts of 1, 2, 3 ... tokens are sent alone: more numbers of tokens in a step than vLLM keeps."""
_MOST_OUTPUT = 24
_LONGEST_SHARE = 1 / 3


@dataclass(frozen=True)
class Settling:
    """What the settling came to; memory by process, MiB, before and after it."""

    wall_s: float
    num_requests: int
    num_prompt_tokens: int
    rss_before_mib: dict[str, float]
    rss_after_mib: dict[str, float]
    problems: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def settle(
    run: LiveRun, adapters: Sequence[str], *, duration_s: float, max_model_len: int, max_batch: int, seed: int
) -> Settling:
    """Send batch after batch until the time is over, each when the one before has ended.

    Parameters
    ----------
    max_batch
        Requests at a time at most.
    """
    started_s, before = time.monotonic(), tree_rss_mib(run.server.pid)
    num_requests = num_prompt_tokens = 0
    problems: list[str] = []
    for batch in settling_batches(adapters, max_model_len=max_model_len, max_batch=max_batch, seed=seed):
        if time.monotonic() - started_s >= duration_s:
            break
        sent = send_all(batch, run.prompt_of, run.sending)
        num_requests += len(batch)
        num_prompt_tokens += sum(request.num_prompt_tokens for request in batch)
        problems += [f"settling: request failed: {record.error}" for record in sent.records if record.error is not None]
        if problems:
            break
    return Settling(
        wall_s=time.monotonic() - started_s,
        num_requests=num_requests,
        num_prompt_tokens=num_prompt_tokens,
        rss_before_mib=before,
        rss_after_mib=tree_rss_mib(run.server.pid),
        problems=tuple(problems[:3]),
    )


def settling_batches(
    adapters: Sequence[str], *, max_model_len: int, max_batch: int, seed: int
) -> Iterator[tuple[ScheduledRequest, ...]]:
    """Yield batches without end: short prompts of every length alone, then batches of all sizes, lengths mixed.

    A third of those prompts are as long as the model takes: they write whole blocks of the key-value cache.
    """
    rng = np.random.default_rng([seed, max_batch])
    longest = max_model_len - _MOST_OUTPUT
    for length in range(1, 1 + min(NUM_SINGLE, longest)):
        yield _batch(adapters, [length], rng)
    for _ in itertools.count():
        lengths = rng.integers(1, longest + 1, size=rng.integers(1, max_batch + 1))
        yield _batch(adapters, np.where(rng.random(len(lengths)) < _LONGEST_SHARE, longest, lengths), rng)


def _batch(
    adapters: Sequence[str], lengths: Sequence[int] | np.ndarray, rng: np.random.Generator
) -> tuple[ScheduledRequest, ...]:
    return tuple(
        ScheduledRequest(
            index=index,
            arrival_s=0.0,
            adapter=adapters[int(rng.integers(len(adapters)))],
            num_prompt_tokens=int(length),
            num_output_tokens=int(rng.integers(1, _MOST_OUTPUT + 1)),
            prompt_index=int(rng.integers(2**31)),
        )
        for index, length in enumerate(lengths)
    )
