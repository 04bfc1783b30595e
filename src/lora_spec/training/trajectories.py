"""Token trajectories that the target writes itself, kept as small shards so that a killed run goes on.

Knows nothing of engines: the caller passes a function that turns prompts into token ids.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Generate = Callable[[Sequence[str], float, int], list[tuple[list[int], list[int]]]]
"""(prompts, temperature, seed) -> one (prompt_token_ids, output_token_ids) per prompt."""


@dataclass(frozen=True)
class ShardPlan:
    """One shard: which prompts, how sampled, where kept."""

    name: str
    prompts: tuple[str, ...]
    temperature: float
    seed: int


def plan_shards(
    prompts: Sequence[str], *, stem: str, temperature: float, seed: int, prompts_per_shard: int
) -> list[ShardPlan]:
    """Cut prompts into shards that each take a minute or so to generate."""
    starts = range(0, len(prompts), prompts_per_shard)
    return [
        ShardPlan(
            name=f"{stem}-{index:04d}.npz",
            prompts=tuple(prompts[start : start + prompts_per_shard]),
            temperature=temperature,
            seed=seed + index,
        )
        for index, start in enumerate(starts)
    ]


def write_shard(path: Path, trajectories: Sequence[tuple[list[int], list[int]]]) -> None:
    """Write (prompt, output) token ids atomically: flat int32 tokens and two length vectors."""
    tokens = [token for prompt, output in trajectories for token in (*prompt, *output)]
    part = path.with_suffix(".part.npz")
    np.savez_compressed(
        part,
        tokens=np.asarray(tokens, dtype=np.int32),
        num_prompt_tokens=np.asarray([len(prompt) for prompt, _ in trajectories], dtype=np.int32),
        num_output_tokens=np.asarray([len(output) for _, output in trajectories], dtype=np.int32),
    )
    part.replace(path)


def read_shard(path: Path) -> list[tuple[np.ndarray, int]]:
    """Return (token_ids, num_prompt_tokens) per trajectory; token_ids hold prompt and output."""
    with np.load(path, allow_pickle=False) as shard:
        lengths = shard["num_prompt_tokens"] + shard["num_output_tokens"]
        pieces = np.split(shard["tokens"], np.cumsum(lengths)[:-1])
        return list(zip(pieces, shard["num_prompt_tokens"].tolist(), strict=True))


def generate_missing_shards(plans: Sequence[ShardPlan], out_dir: Path, generate: Generate) -> int:
    """Generate every shard that is not there yet, each written at once; return how many were made."""
    out_dir.mkdir(parents=True, exist_ok=True)
    missing = [plan for plan in plans if not (out_dir / plan.name).exists()]
    for plan in missing:
        write_shard(out_dir / plan.name, generate(plan.prompts, plan.temperature, plan.seed))
    return len(missing)


def link_shards(plans: Sequence[ShardPlan], shards_dir: Path, out_dir: Path) -> None:
    """Put exactly the planned shards into ``out_dir``, as hard links, so that stale ones are never trained on."""
    out_dir.mkdir(parents=True, exist_ok=True)
    for plan in plans:
        (out_dir / plan.name).hardlink_to(shards_dir / plan.name)
