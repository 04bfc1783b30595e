"""Which trajectories the drafter learns from, and how an engine writes them."""

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from lora_spec.engines import Engine, GenerationRequest
from lora_spec.errors import TrainingInputError
from lora_spec.training.chat_prompts import chat_prompts
from lora_spec.training.trajectories import Generate, ShardPlan, plan_shards

HELDOUT_STEM = "heldout"
"""Shards whose names begin so are never trained on."""


def drafter_shard_plans(training: Mapping[str, Any]) -> list[ShardPlan]:
    """Return the shards of a drafter recipe: held-out ones first, then greedy and sampled ones in turn.

    Parameters
    ----------
    training
        The ``training`` block of a drafter in ``models.yaml``.
    """

    def plan(kind: str, *, temperature: float, held_out: bool) -> list[ShardPlan]:
        seed = training[f"{kind}_prompt_seed"]
        return plan_shards(
            chat_prompts(training[f"num_{kind}_prompts"], seed=seed, held_out=held_out),
            stem=kind,
            temperature=temperature,
            seed=training["sampling_seed"],
            prompts_per_shard=training["prompts_per_shard"],
        )

    heldout = plan(HELDOUT_STEM, temperature=0.0, held_out=True)
    greedy = plan("greedy", temperature=0.0, held_out=False)
    sampled = plan("sampled", temperature=training["temperature"], held_out=False)
    in_turn = chain.from_iterable(zip_longest(greedy, sampled))
    return [*heldout, *(shard for shard in in_turn if shard is not None)]


def planned_shards(training: Mapping[str, Any], shards_dir: Path) -> list[Path]:
    """Return the files of exactly the shards that a recipe plans, by name.

    Raises
    ------
    TrainingInputError
        A shard is not there: the folder was written by another recipe, or by a run that was cut short.
    """
    paths = sorted(shards_dir / plan.name for plan in drafter_shard_plans(training))
    if missing := [path for path in paths if not path.exists()]:
        raise TrainingInputError(
            f"{missing[0]}: no such shard ({len(missing)} of {len(paths)} are missing); set trajectories to null in "
            "models.yaml, which lets the target write them"
        )
    return paths


def chat_generator(engine: Engine, max_tokens: int) -> Generate:
    """Return a function that lets an engine answer chat prompts and gives back the token ids.

    Sampled answers depend on the engine's own seed and on what it answered before, since vLLM's CPU sampler takes no
    seed per request: a shard is generated once and kept.
    """

    def generate(prompts: Sequence[str], temperature: float, seed: int) -> list[tuple[list[int], list[int]]]:
        encoded = engine.encode_chat(prompts)
        requests = [
            GenerationRequest(f"{seed}-{index}", tokens, max_tokens, temperature=temperature)
            for index, tokens in enumerate(encoded)
        ]
        completions = engine.generate(requests)
        return [(list(p), list(c.output_token_ids)) for p, c in zip(encoded, completions, strict=True)]

    return generate
