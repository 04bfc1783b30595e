"""A padded drafter ranks a real token first wherever the unpadded one does, and stays the same otherwise."""

import json

import pytest

from lora_spec.errors import TrainingInputError
from lora_spec.training.padded_vocabulary import pad_vocabulary, with_mean_rows

pytestmark = pytest.mark.serving
NUM_ADDED = 9


def _write_qwen2(folder, tokenizer, *, vocab_size, tie=True, max_shard_size="1GB", seed=0):
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=vocab_size,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=128,
        tie_word_embeddings=tie,
        initializer_range=0.3,
    )
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder, max_shard_size=max_shard_size)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(tiny_target):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_target)


def _models(tmp_path, tokenizer, **options):
    num_tokens = len(tokenizer)
    drafter = _write_qwen2(tmp_path / "drafter", tokenizer, vocab_size=num_tokens, **options)
    target = _write_qwen2(tmp_path / "target", tokenizer, vocab_size=num_tokens + NUM_ADDED, seed=1)
    return drafter, target


def _load(folder):
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


@pytest.mark.parametrize("tie", [True, False])
@pytest.mark.parametrize("max_shard_size", ["1GB", "20KB"])
def test_logits_of_real_tokens_are_the_same_and_added_ones_are_never_first(tmp_path, tokenizer, tie, max_shard_size):
    import torch

    drafter, target = _models(tmp_path, tokenizer, tie=tie, max_shard_size=max_shard_size)
    pad_vocabulary(drafter, target, tmp_path / "padded")
    before, after = _load(drafter), _load(tmp_path / "padded")
    assert after.config.vocab_size == len(tokenizer) + NUM_ADDED == _load(target).config.vocab_size
    ids = torch.arange(3, 120)[None]
    with torch.no_grad():
        old, new = before(input_ids=ids).logits[0], after(input_ids=ids).logits[0]
    torch.testing.assert_close(new[:, : len(tokenizer)], old)
    assert torch.equal(new.argmax(-1), old.argmax(-1))
    # The logit of an added token is the mean of all real ones.
    torch.testing.assert_close(new[:, -1], old.mean(-1), atol=2e-2, rtol=0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_hidden_state_ranks_an_added_row_first(dtype):
    """Also where all real logits are negative, and a row of zeros would win."""
    import torch

    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    rows = (torch.randn(300, 16) + 2).to(kind)
    padded = with_mean_rows(rows, 310)
    hidden = torch.cat([torch.randn(2000, 16), -rows.float(), rows.float(), -torch.rand(500, 16)]).to(kind)
    all_negative = ((hidden @ rows.T) < 0).all(-1)
    assert all_negative.sum() > 400
    first = (hidden @ padded.T).argmax(-1)
    assert first.max() < 300
    assert torch.equal(first, (hidden @ rows.T).argmax(-1))
    zeros = torch.cat([rows, torch.zeros(10, 16, dtype=kind)])
    assert ((hidden @ zeros.T).argmax(-1)[all_negative] >= 300).all()


def test_the_report_names_what_was_padded_and_hashes_both(tmp_path, tokenizer):
    from lora_spec.provenance import sha256_of_file

    drafter, target = _models(tmp_path, tokenizer, tie=False)
    report = pad_vocabulary(drafter, target, tmp_path / "padded")
    assert json.loads((tmp_path / "padded/padding.json").read_text()) == report
    assert report["num_rows_added"] == NUM_ADDED
    assert sorted(report["padded"]) == ["lm_head.weight", "model.embed_tokens.weight"]
    for folder, key in ((drafter, "drafter_sha256"), (tmp_path / "padded", "padded_sha256")):
        assert report[key] == {"model.safetensors": sha256_of_file(folder / "model.safetensors")}
    assert report["drafter_sha256"] != report["padded_sha256"]


def test_padding_twice_gives_the_same_bytes_and_an_index_that_adds_up(tmp_path, tokenizer):
    drafter, target = _models(tmp_path, tokenizer, tie=False, max_shard_size="20KB")
    one, other = (pad_vocabulary(drafter, target, tmp_path / name) for name in ("one", "other"))
    assert one == other
    assert len(one["padded_sha256"]) > 1
    index = json.loads((tmp_path / "one/model.safetensors.index.json").read_text())
    size = sum(parameter.numel() * 2 for parameter in _load(tmp_path / "one").parameters())
    assert index["metadata"]["total_size"] == size


def test_equal_sizes_are_copied_as_they_are(tmp_path, tokenizer):
    drafter, _ = _models(tmp_path, tokenizer)
    report = pad_vocabulary(drafter, drafter, tmp_path / "padded")
    assert report["num_rows_added"] == 0
    assert report["drafter_sha256"] == report["padded_sha256"]


def test_a_drafter_of_more_tokens_is_refused(tmp_path, tokenizer):
    drafter, target = _models(tmp_path, tokenizer)
    with pytest.raises(TrainingInputError, match="rows can be added and not taken away"):
        pad_vocabulary(target, drafter, tmp_path / "padded")
    assert not (tmp_path / "padded").exists()


def test_a_drafter_with_other_tokens_is_refused(tmp_path, tokenizer):
    drafter, target = _models(tmp_path, tokenizer)
    path = target / "tokenizer.json"
    told = json.loads(path.read_text())
    vocab = told["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
    path.write_text(json.dumps(told))
    with pytest.raises(TrainingInputError, match="differ, at token 'a'"):
        pad_vocabulary(drafter, target, tmp_path / "padded")


def test_weights_that_contradict_the_configuration_are_refused(tmp_path, tokenizer):
    drafter, target = _models(tmp_path, tokenizer)
    config = json.loads((drafter / "config.json").read_text())
    (drafter / "config.json").write_text(json.dumps({**config, "vocab_size": config["vocab_size"] - 1}))
    with pytest.raises(TrainingInputError, match=r"rows, config\.json says vocab_size"):
        pad_vocabulary(drafter, target, tmp_path / "padded")


def test_weights_that_are_cut_off_are_refused_and_leave_nothing(tmp_path, tokenizer):
    drafter, target = _models(tmp_path, tokenizer)
    (path,) = drafter.glob("*.safetensors")
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(TrainingInputError, match="not a whole safetensors file"):
        pad_vocabulary(drafter, target, tmp_path / "padded")
    assert not (tmp_path / "padded").exists()
