import json

import numpy as np
import pytest

from lora_spec.errors import TrainingError
from lora_spec.provenance import sha256_of_file
from lora_spec.training import lora
from lora_spec.training.domains import Example
from lora_spec.training.lora import train_lora
from lora_spec.training.make_adapter import make_adapter
from lora_spec.training.own_answers import OwnAnswers
from lora_spec.training.recipe import AdapterRecipe

pytestmark = pytest.mark.serving

ROW = AdapterRecipe(
    name="arithmetic",
    domain="arithmetic",
    stratum="moderate",
    rank=4,
    alpha=16,
    target_modules=("q_proj", "v_proj", "o_proj"),
    learning_rate=0.02,
    num_steps=16,
    batch_size=4,
    seed=3,
    license="CC0-1.0",
)


def _train(target, row, out_dir, own_answers=OwnAnswers()):  # noqa: B008
    return train_lora(
        target,
        row,
        out_dir,
        base_model_name="tiny-target",
        own_answers=own_answers,
        num_threads=1,
        max_tokens=128,
        num_eval_pairs=8,
    )


@pytest.fixture(scope="module")
def trained(tiny_target, tmp_path_factory):
    return _train(tiny_target, ROW, tmp_path_factory.mktemp("pool") / ROW.name)


def test_training_twice_from_one_row_gives_the_same_bytes(trained, tiny_target, tmp_path):
    again = _train(tiny_target, ROW, tmp_path / "again")
    names = sorted(path.name for path in trained.out_dir.iterdir())
    assert names == ["adapter_config.json", "adapter_model.safetensors", "recipe.json"]
    assert [sha256_of_file(trained.out_dir / name) for name in names] == [
        sha256_of_file(again.out_dir / name) for name in names
    ]


def test_a_ratio_of_one_gives_the_bytes_of_one_group_of_parameters(trained, tiny_target, tmp_path, monkeypatch):
    def one_group(model, row):
        return [{"params": [p for p in model.parameters() if p.requires_grad], "lr": row.learning_rate}]

    assert ROW.lora_plus_ratio == 1.0
    monkeypatch.setattr(lora, "_parameter_groups", one_group)
    plain = _train(tiny_target, ROW, tmp_path / "plain")
    weights = "adapter_model.safetensors"
    assert sha256_of_file(plain.out_dir / weights) == sha256_of_file(trained.out_dir / weights)


@pytest.mark.parametrize("ratio", [1.0, 16.0])
def test_the_first_step_moves_b_by_the_rate_of_a_times_the_ratio(tiny_target, tmp_path, ratio):
    import torch
    from safetensors.torch import load_file

    change = {"num_steps": 1, "learning_rate": 2.0**-10, "lora_plus_ratio": ratio}
    row = AdapterRecipe.from_dict({**ROW.to_dict(), **change})
    tensors = load_file(_train(tiny_target, row, tmp_path / "out").out_dir / "adapter_model.safetensors")
    steps = torch.cat([tensor.abs().flatten().float() for name, tensor in tensors.items() if ".lora_B." in name])
    # Adam's first step is the learning rate in size wherever the gradient is far above its epsilon.
    assert steps.median().item() == pytest.approx(ratio * 2.0**-10, rel=0.01)
    assert steps.max().item() <= 1.01 * ratio * 2.0**-10


def test_another_seed_gives_other_weights(trained, tiny_target, tmp_path):
    other = _train(tiny_target, AdapterRecipe.from_dict({**ROW.to_dict(), "seed": 4}), tmp_path / "other")
    weights = "adapter_model.safetensors"
    assert sha256_of_file(trained.out_dir / weights) != sha256_of_file(other.out_dir / weights)


def test_loss_falls_on_pairs_never_trained_on(trained):
    before, after = trained.score_before.to_dict(), trained.score_after.to_dict()
    assert after["loss_nats_per_token"] < 0.9 * before["loss_nats_per_token"]
    assert after["num_answer_tokens"] == before["num_answer_tokens"]
    assert np.mean(trained.loss_nats_per_step[-4:]) < np.mean(trained.loss_nats_per_step[:4])


def test_recipe_file_holds_row_licence_and_scores(trained):
    recipe = json.loads((trained.out_dir / "recipe.json").read_text())
    assert AdapterRecipe.from_dict(recipe["row"]) == ROW
    assert recipe["license"] == "CC0-1.0"
    assert recipe["held_out_after"]["num_pairs"] == 8
    assert len(recipe["loss_nats_per_step"]) == ROW.num_steps


def test_files_are_pefts_and_name_no_path_of_this_machine(trained, tiny_target):
    import torch
    from safetensors.torch import load_file

    text = (trained.out_dir / "adapter_config.json").read_text()
    assert json.loads(text)["base_model_name_or_path"] == "tiny-target"
    assert str(tiny_target) not in text + (trained.out_dir / "recipe.json").read_text()
    tensors = load_file(trained.out_dir / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    assert len(tensors) == 2 * 3 * 3
    assert tensors["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"].shape == (4, 32)


def test_peft_loads_the_adapter_and_gets_the_reported_loss(trained, tiny_target):
    import torch
    from peft import PeftModel
    from torch.nn.functional import cross_entropy
    from transformers import AutoTokenizer, LlamaForCausalLM

    from lora_spec.training.domains import find_domain

    tokenizer = AutoTokenizer.from_pretrained(tiny_target)
    base = LlamaForCausalLM.from_pretrained(tiny_target, dtype=torch.float32)
    model = PeftModel.from_pretrained(base, trained.out_dir)
    sum_loss, num_tokens = 0.0, 0
    for example in find_domain("arithmetic").examples("eval", num=8, seed=ROW.seed):
        prompt = tokenizer.encode(f"<s>{example.prompt}\n", add_special_tokens=False)
        answer = [*tokenizer.encode(example.answer, add_special_tokens=False), tokenizer.eos_token_id]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
        sum_loss += cross_entropy(logits, torch.tensor(answer), reduction="sum").item()
        num_tokens += len(answer)
    assert num_tokens == trained.score_after.num_answer_tokens
    # The file is bf16, the score was taken in float32.
    assert sum_loss == pytest.approx(trained.score_after.sum_loss_nats, rel=0.02)


def test_scores_before_training_are_those_of_the_bare_target(trained, tiny_target):
    import torch
    from transformers import AutoTokenizer, LlamaForCausalLM

    from lora_spec.training.batches import encode_pair
    from lora_spec.training.domains import find_domain
    from lora_spec.training.task_score import score_task

    tokenizer = AutoTokenizer.from_pretrained(tiny_target)
    pairs = [
        encode_pair(example, tokenizer=tokenizer, max_tokens=128)
        for example in find_domain("arithmetic").examples("eval", num=8, seed=ROW.seed)
    ]
    bare = LlamaForCausalLM.from_pretrained(tiny_target, dtype=torch.float32)
    score = score_task(bare, pairs, batch_size=3, pad_token_id=2)
    assert score.num_correct_tokens == trained.score_before.num_correct_tokens
    assert score.num_prefix_tokens == trained.score_before.num_prefix_tokens
    assert score.sum_loss_nats == pytest.approx(trained.score_before.sum_loss_nats, rel=1e-5)


def test_exact_pairs_are_those_that_greedy_decoding_reproduces(tiny_target):
    import torch
    from transformers import LlamaForCausalLM

    from lora_spec.training.batches import EncodedPair
    from lora_spec.training.task_score import score_task

    model = LlamaForCausalLM.from_pretrained(tiny_target, dtype=torch.float32).eval()
    prompt = torch.tensor([[1, 40, 41, 42]])
    greedy = model.generate(prompt, max_new_tokens=6, do_sample=False, eos_token_id=None, pad_token_id=2)[0].tolist()
    spoiled = [*greedy[:-3], (greedy[-3] + 1) % 256, *greedy[-2:]]
    score = score_task(
        model, [EncodedPair(tuple(greedy), 4), EncodedPair(tuple(spoiled), 4)], batch_size=2, pad_token_id=2
    )
    assert (score.num_pairs, score.num_exact_pairs, score.num_answer_tokens) == (2, 1, 12)
    assert score.num_prefix_tokens == 6 + 3


def test_chat_domain_learns_from_own_answers_alone(tiny_target, tmp_path):
    row = AdapterRecipe.from_dict(
        {**ROW.to_dict(), "name": "upper", "domain": "upper_case", "license": "Apache-2.0", "num_steps": 2}
    )
    own = OwnAnswers(
        train=[Example(f"Say {index}", "Some words.") for index in range(8)],
        held_out=[Example(f"Tell {index}", "Some words.") for index in range(30)],
    )
    result = _train(tiny_target, row, tmp_path / "upper", own)
    assert result.score_after.num_answer_tokens == 8 * len("SOME WORDS.|")
    with pytest.raises(TrainingError, match=r"needs 8 of the target's own answers"):
        _train(tiny_target, row, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_licence_that_is_not_the_domains_is_refused(tiny_target, tmp_path):
    row = AdapterRecipe.from_dict({**ROW.to_dict(), "license": "MIT"})
    with pytest.raises(TrainingError, match=r"license 'MIT' differs from 'CC0-1.0'"):
        _train(tiny_target, row, tmp_path / "out")


def test_a_diverging_loss_is_an_error_and_writes_nothing(tiny_target, tmp_path):
    row = AdapterRecipe.from_dict({**ROW.to_dict(), "learning_rate": 1e30})
    with pytest.raises(TrainingError, match="lower learning_rate"):
        _train(tiny_target, row, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_row_is_made_from_the_shards_of_its_folder(tiny_target, tmp_path):
    from transformers import AutoTokenizer

    from lora_spec.training.trajectories import write_shard

    tokenizer = AutoTokenizer.from_pretrained(tiny_target)

    def turn(index):
        prompt = tokenizer.encode(f"<s>Say {index}\n", add_special_tokens=False)
        return prompt, tokenizer.encode("Fine.</s>", add_special_tokens=False)

    row = AdapterRecipe.from_dict(
        {**ROW.to_dict(), "name": "chat", "domain": "self_chat", "license": "Apache-2.0", "num_steps": 2}
    )
    settings = {"base_model_name": "tiny-target", "answers_dir": tmp_path, "num_threads": 1}
    write_shard(tmp_path / "greedy-0000.npz", [turn(index) for index in range(8)])
    with pytest.raises(TrainingError, match="no shard heldout-"):
        make_adapter(tiny_target, row, tmp_path / "out", **settings)
    write_shard(tmp_path / "heldout-0000.npz", [turn(index) for index in range(100, 170)])
    out = make_adapter(tiny_target, row, tmp_path / "out", **settings)
    assert json.loads((out / "recipe.json").read_text())["held_out_after"]["num_pairs"] == 48


def test_a_control_row_needs_no_shards(tiny_target, tmp_path):
    row = AdapterRecipe.from_dict({**ROW.to_dict(), "stratum": "control", "num_steps": 0})
    out = make_adapter(
        tiny_target, row, tmp_path / "out", base_model_name="tiny-target", answers_dir=tmp_path / "none", num_threads=1
    )
    assert (out / "adapter_model.safetensors").is_file()
