"""A small target learns from another one's answers, with a tokenizer and an architecture of its own."""

import json

import pytest

from lora_spec.errors import TrainingInputError

pytestmark = pytest.mark.serving

ANSWER = "The sea is blue and the sky is blue."
TRAINING = {
    "vocab_size": 512,
    "num_tokenizer_pairs_per_domain": 20,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 256,
    "max_tokens": 192,
    "num_epochs": 40,
    "batch_tokens": 512,
    "learning_rate": 0.01,
    "num_warmup_steps": 2,
    "weight_decay": 0.0,
    "save_every_steps": 20,
    "num_threads": 1,
    "training_seed": 0,
}


@pytest.fixture(scope="module")
def answers(tiny_target, tmp_path_factory):
    """Return a folder of shards in which the tiny target always gives one answer."""
    from transformers import AutoTokenizer

    from lora_spec.training.trajectories import generate_missing_shards, plan_shards

    tokenizer = AutoTokenizer.from_pretrained(tiny_target)

    def generate(prompts, temperature, seed):
        chats = [[{"role": "user", "content": prompt}] for prompt in prompts]
        encoded = [tokenizer.encode(tokenizer.apply_chat_template(c, tokenize=False)) for c in chats]
        return [(prompt, [*tokenizer.encode(ANSWER), tokenizer.eos_token_id]) for prompt in encoded]

    folder = tmp_path_factory.mktemp("answers")
    plans = [
        plan
        for stem, num in (("greedy", 24), ("heldout", 4))
        for plan in plan_shards(
            [f"Say it, number {stem} {i}." for i in range(num)],
            stem=stem,
            temperature=0.0,
            seed=0,
            max_tokens=64,
            prompts_per_shard=12,
        )
    ]
    generate_missing_shards(plans, folder, generate)
    return folder


@pytest.fixture(scope="module")
def made(tiny_target, answers, tmp_path_factory):
    from lora_spec.training.train_target import train_target

    out = tmp_path_factory.mktemp("made")
    curve = train_target(tiny_target, answers, training=TRAINING, state_dir=out / "state", out_dir=out / "model")
    return out / "model", curve


def test_the_model_is_a_plain_qwen2_with_biases_and_tied_embeddings(made):
    from transformers import AutoModelForCausalLM, Qwen2ForCausalLM

    model = AutoModelForCausalLM.from_pretrained(made[0])
    assert isinstance(model, Qwen2ForCausalLM)
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert model.model.layers[0].self_attn.q_proj.bias is not None
    assert json.loads((made[0] / "config.json").read_text())["dtype"] == "bfloat16"


def test_it_learns_the_answer_for_held_out_prompts(made):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    _, curve = made
    assert curve[-1]["held_out_accuracy"] > 0.95
    assert curve[-1]["held_out_loss_nats"] < 0.3 * curve[0]["held_out_loss_nats"]
    model, tokenizer = (kind.from_pretrained(made[0]) for kind in (AutoModelForCausalLM, AutoTokenizer))
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Say it, number heldout 3."}], tokenize=False, add_generation_prompt=True
    )
    prompt = torch.tensor([tokenizer.encode(text)])
    found = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=40, do_sample=False)[0]
    assert tokenizer.decode(found[prompt.shape[1] :]) == f"{ANSWER}<|im_end|>"


def test_the_tokenizer_gives_every_text_back_and_knows_its_turns(made):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(made[0])
    assert len(tokenizer) == TRAINING["vocab_size"]
    for text in ("naïve café, 12345 \t and\n\n  three  spaces", "SELECT * FROM t WHERE x = 'ß';", "日本語 😀"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert chat == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    ids = tokenizer.encode(chat)
    assert ids.count(tokenizer.eos_token_id) == 1
    assert tokenizer.decode(ids) == chat


def test_drafter_and_adapter_are_trained_over_it_like_over_any_target(made, tmp_path):
    import torch
    from safetensors.torch import load_file

    from lora_spec.training.drafter import assemble_drafter, init_drafter, save_drafter_layers
    from lora_spec.training.lora import train_lora
    from lora_spec.training.own_answers import OwnAnswers
    from lora_spec.training.recipe import AdapterRecipe

    target, _ = made
    save_drafter_layers(init_drafter(target, layers=[0, 2]), tmp_path / "layers.safetensors", metadata={})
    drafter = load_file(
        assemble_drafter(target, tmp_path / "layers.safetensors", tmp_path / "drafter") / "model.safetensors"
    )
    base = load_file(target / "model.safetensors")
    for name, old in (("self_attn.q_proj.bias", 2), ("mlp.down_proj.weight", 2)):
        assert torch.equal(drafter[f"model.layers.1.{name}"], base[f"model.layers.{old}.{name}"])
    row = AdapterRecipe(
        name="sorting", domain="sorting", stratum="moderate", rank=2, alpha=4, target_modules=("q_proj", "v_proj"),
        learning_rate=0.01, num_steps=4, batch_size=2, seed=3, license="CC0-1.0",
    )  # fmt: skip
    trained = train_lora(
        target, row, tmp_path / "adapter", base_model_name="small", own_answers=OwnAnswers(), num_threads=1,
        max_tokens=250, num_eval_pairs=2,
    )  # fmt: skip
    assert all(tensor.any() for tensor in load_file(trained.out_dir / "adapter_model.safetensors").values())


def test_a_folder_without_held_out_answers_is_refused(tiny_target, tmp_path):
    from lora_spec.training.train_target import train_target

    with pytest.raises(TrainingInputError, match="held-out"):
        train_target(tiny_target, tmp_path, training=TRAINING, state_dir=tmp_path / "s", out_dir=tmp_path / "m")
