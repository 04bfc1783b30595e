"""Shards are made once, written whole, and only the planned ones are trained on."""

from pathlib import Path

import pytest

from lora_spec.config import load_tier
from lora_spec.errors import TrainingError
from lora_spec.training.chat_prompts import CODE_TASKS, TOPICS, chat_prompts
from lora_spec.training.own_trajectories import drafter_shard_plans, planned_shards
from lora_spec.training.trajectories import (
    check_shards,
    generate_missing_shards,
    link_shards,
    plan_shards,
    read_manifest,
    read_shard,
)

ROOT = Path(__file__).parents[2]


def _plans(prompts=("a", "b", "c"), **changes):
    how = {"temperature": 0.0, "seed": 7, "max_tokens": 96} | changes
    return plan_shards(prompts, stem="greedy", prompts_per_shard=2, **how)


def _generate(prompts, temperature, seed):
    return [([1, ord(prompt)], [seed]) for prompt in prompts]


def test_a_repeated_run_makes_only_what_is_missing(tmp_path):
    assert generate_missing_shards(_plans(), tmp_path, _generate) == 2
    (tmp_path / "greedy-0001.npz").unlink()
    assert generate_missing_shards(_plans(), tmp_path, _generate) == 1
    assert generate_missing_shards(_plans(), tmp_path, _generate) == 0


def test_what_is_written_is_read(tmp_path):
    generate_missing_shards(_plans(), tmp_path, _generate)
    first, second = read_shard(tmp_path / "greedy-0000.npz")
    assert (first[0].tolist(), first[1]) == ([1, ord("a"), 7], 2)
    assert (second[0].tolist(), second[1]) == ([1, ord("b"), 7], 2)


def test_stale_shards_are_left_behind(tmp_path):
    kept, out = tmp_path / "kept", tmp_path / "out"
    generate_missing_shards(_plans(), kept, _generate)
    (kept / "greedy-0009.npz").write_bytes(b"stale")
    link_shards(_plans(), kept, out)
    for _ in range(2):
        link_shards(_plans(), kept, out)
        assert sorted(path.name for path in out.iterdir()) == ["greedy-0000.npz", "greedy-0001.npz", "shards.json"]
    check_shards(_plans(), out)


@pytest.mark.parametrize(
    "changes",
    [{"prompts": ("a", "b", "z")}, {"temperature": 0.1}, {"seed": 8}, {"max_tokens": 8}],
    ids=lambda c: next(iter(c)),
)
def test_a_shard_of_another_recipe_is_made_anew_and_never_trained_on(tmp_path, changes):
    generate_missing_shards(_plans(), tmp_path, _generate)
    with pytest.raises(TrainingError, match=r"greedy-000\d\.npz: made by another recipe"):
        check_shards(_plans(**changes), tmp_path)
    assert generate_missing_shards(_plans(**changes), tmp_path, _generate) >= 1
    check_shards(_plans(**changes), tmp_path)


@pytest.mark.parametrize("keep", [0, 10, 0.5, -1])
def test_a_damaged_shard_is_refused_and_made_anew(tmp_path, keep):
    generate_missing_shards(_plans(), tmp_path, _generate)
    path = tmp_path / "greedy-0000.npz"
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(TrainingError, match=r"greedy-0000\.npz: .*cut off or changed \(1 of 2 shards\)"):
        check_shards(_plans(), tmp_path)
    with pytest.raises(TrainingError, match="not a whole shard"):
        read_shard(path)
    assert generate_missing_shards(_plans(), tmp_path, _generate) == 1
    assert len(read_shard(path)) == 2


def test_shards_without_a_manifest_are_not_believed(tmp_path):
    generate_missing_shards(_plans(), tmp_path, _generate)
    (tmp_path / "shards.json").unlink()
    with pytest.raises(TrainingError, match=r"not in shards\.json"):
        check_shards(_plans(), tmp_path)


@pytest.mark.parametrize("tier", ["mini", "cpu"])
def test_the_shipped_trajectories_are_those_of_the_recipe(tier):
    recipe = load_tier(ROOT, tier).models.primary.drafter.training
    shards = planned_shards(recipe.to_dict(), ROOT / recipe.trajectories)
    assert sorted(read_manifest(ROOT / recipe.trajectories)) == [path.name for path in shards]
    plans = {plan.name: plan for plan in drafter_shard_plans(recipe.to_dict())}
    for path in shards:
        trajectories = read_shard(path)
        assert len(trajectories) == len(plans[path.name].prompts)
        assert max(len(tokens) - num_prompt for tokens, num_prompt in trajectories) <= recipe.max_tokens


def test_more_prompts_than_there_are_is_an_error_and_not_a_wait(monkeypatch):
    monkeypatch.setattr("lora_spec.training.chat_prompts.TOPICS", TOPICS[:9])
    monkeypatch.setattr("lora_spec.training.chat_prompts.CODE_TASKS", CODE_TASKS[:9])
    with pytest.raises(TrainingError, match="distinct chat prompts were found, not 2000"):
        chat_prompts(2000, seed=0, held_out=False)
