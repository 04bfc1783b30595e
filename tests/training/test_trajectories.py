"""Shards are made once, written whole, and only the planned ones are trained on."""

from lora_spec.training.trajectories import generate_missing_shards, link_shards, plan_shards, read_shard


def _plans():
    return plan_shards(["a", "b", "c"], stem="greedy", temperature=0.0, seed=7, prompts_per_shard=2)


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
    assert sorted(path.name for path in out.iterdir()) == ["greedy-0000.npz", "greedy-0001.npz"]
