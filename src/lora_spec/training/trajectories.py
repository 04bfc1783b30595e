"""Token trajectories that the target writes itself, kept as small shards so that a killed run goes on.

Knows nothing of engines: the caller passes a function that turns prompts into token ids. A manifest beside the shards
says which plan each was made by and what its bytes are, since a name says neither.
"""

import os
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lora_spec.errors import ResultError, TrainingError
from lora_spec.provenance import sha256_of_file, sha256_of_json
from lora_spec.results import read_json, write_json_atomically

Generate = Callable[[Sequence[str], float, int], list[tuple[list[int], list[int]]]]
"""(prompts, temperature, seed) -> one (prompt_token_ids, output_token_ids) per prompt."""

MANIFEST = "shards.json"


@dataclass(frozen=True)
class ShardPlan:
    """One shard: which prompts, how sampled and how long, where kept."""

    name: str
    prompts: tuple[str, ...]
    temperature: float
    seed: int
    max_tokens: int

    @property
    def sha256(self) -> str:
        """Return the digest of everything that decides what is written, which the name is not part of."""
        return sha256_of_json([list(self.prompts), self.temperature, self.seed, self.max_tokens])


def plan_shards(
    prompts: Sequence[str], *, stem: str, temperature: float, seed: int, max_tokens: int, prompts_per_shard: int
) -> list[ShardPlan]:
    """Cut prompts into shards that each take a minute or so to generate."""
    starts = range(0, len(prompts), prompts_per_shard)
    return [
        ShardPlan(
            name=f"{stem}-{index:04d}.npz",
            prompts=tuple(prompts[start : start + prompts_per_shard]),
            temperature=temperature,
            seed=seed + index,
            max_tokens=max_tokens,
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
    """Return (token_ids, num_prompt_tokens) per trajectory; token_ids hold prompt and output.

    Raises
    ------
    TrainingError
        The file is missing, cut off, or its lengths do not add up to its tokens.
    """
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as shard:
            tokens, num_prompt, num_output = (
                shard[key] for key in ("tokens", "num_prompt_tokens", "num_output_tokens")
            )
    except (OSError, ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error) as err:
        raise TrainingError(f"{path}: not a whole shard ({err}); delete it and let the target write it anew") from err
    if not _adds_up(tokens, num_prompt, num_output):
        raise TrainingError(f"{path}: its lengths do not add up to its tokens; delete it and write it anew")
    pieces = np.split(tokens, np.cumsum(num_prompt + num_output)[:-1])
    return list(zip(pieces, num_prompt.tolist(), strict=True))


def _adds_up(tokens: np.ndarray, num_prompt: np.ndarray, num_output: np.ndarray) -> bool:
    if any(array.dtype != np.int32 or array.ndim != 1 for array in (tokens, num_prompt, num_output)):
        return False
    is_possible = num_prompt.size == num_output.size > 0 and min(num_prompt.min(), num_output.min()) >= 0
    return is_possible and int(num_prompt.sum() + num_output.sum()) == tokens.size


def read_manifest(folder: Path) -> dict[str, dict[str, str]]:
    """Return shard name -> ``{"plan_sha256", "sha256"}``; empty where the folder has no manifest.

    Raises
    ------
    TrainingError
        The manifest is damaged.
    """
    path = folder / MANIFEST
    if not path.exists():
        return {}
    try:
        found = read_json(path)
    except ResultError as err:
        raise TrainingError(str(err)) from err
    if not isinstance(found, dict) or not all(isinstance(entry, dict) for entry in found.values()):
        raise TrainingError(f"{path}: not a manifest of shards; delete it and write the shards anew")
    return found


def manifest_entry(plan: ShardPlan, path: Path) -> dict[str, str]:
    """Return what the manifest says of a shard that was made by a plan."""
    return {"plan_sha256": plan.sha256, "sha256": sha256_of_file(path)}


def shard_problem(plan: ShardPlan, folder: Path, manifest: Mapping[str, Any]) -> str | None:
    """Return why a file is not the shard of this plan, None where it is."""
    path, told = folder / plan.name, manifest.get(plan.name)
    if not path.exists():
        return "no such shard"
    if told is None:
        return f"not in {MANIFEST}, so nothing says which recipe it was made by"
    if told.get("plan_sha256") != plan.sha256:
        return "made by another recipe (prompts, temperature, seed or max_tokens)"
    if told.get("sha256") != sha256_of_file(path):
        return f"not the file that {MANIFEST} describes: cut off or changed"
    return None


def generate_missing_shards(plans: Sequence[ShardPlan], out_dir: Path, generate: Generate) -> int:
    """Generate every shard that is not there whole and by its plan, each written at once; return how many were made."""
    out_dir.mkdir(parents=True, exist_ok=True)
    manifest = read_manifest(out_dir)
    missing = [plan for plan in plans if shard_problem(plan, out_dir, manifest)]
    for plan in missing:
        path = out_dir / plan.name
        write_shard(path, generate(plan.prompts, plan.temperature, plan.seed))
        manifest[plan.name] = manifest_entry(plan, path)
        write_json_atomically(out_dir / MANIFEST, manifest)
    return len(missing)


def link_shards(plans: Sequence[ShardPlan], shards_dir: Path, out_dir: Path) -> None:
    """Put exactly the planned shards and their manifest into ``out_dir``, as hard links; what else is there goes.

    Raises
    ------
    TrainingError
        A shard is not there, or not by its plan.
    """
    check_shards(plans, shards_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    for stale in out_dir.glob("*.npz"):
        stale.unlink()
    manifest = read_manifest(shards_dir)
    for plan in plans:
        os.link(shards_dir / plan.name, out_dir / plan.name)
    write_json_atomically(out_dir / MANIFEST, {plan.name: manifest[plan.name] for plan in plans})


def check_shards(plans: Sequence[ShardPlan], folder: Path) -> None:
    """Refuse a folder that lacks a planned shard, or holds another one under its name.

    Raises
    ------
    TrainingError
        With the first such shard, why, and how many there are.
    """
    manifest = read_manifest(folder)
    problems = {plan.name: problem for plan in plans if (problem := shard_problem(plan, folder, manifest))}
    for name, problem in problems.items():
        raise TrainingError(
            f"{folder / name}: {problem} ({len(problems)} of {len(plans)} shards); set trajectories to null in "
            "models.yaml, which lets the target write them"
        )
