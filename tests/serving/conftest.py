"""A tiny random pair with a tokenizer and adapters, built on the fly, and one real vLLM engine per module."""

import json
import os

import pytest
from word_tokenizer import VOCAB, save_tokenizer

# One unbound thread: more gain nothing on a model of this size, and spin for whole time slices on a busy machine.
# Both are read when torch and vLLM are first imported.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"

# vLLM's attention on the CPU wants heads of at least 32.
HIDDEN, HEADS, RANK = 64, 2, 4


def _model(num_layers, seed):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=num_layers,
        num_attention_heads=HEADS,
        num_key_value_heads=1,
        max_position_embeddings=512,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.15,
    )
    return LlamaForCausalLM(config).float().eval()


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """Return (target folder, drafter folder): the drafter is the target without its weaker second layer."""
    import torch

    root = tmp_path_factory.mktemp("pair")
    target, drafter = _model(2, seed=0), _model(1, seed=1)
    with torch.no_grad():
        for name in ("self_attn.o_proj", "mlp.down_proj"):
            target.model.layers[1].get_submodule(name).weight.mul_(0.5)
        # The end token now and then: both ways of ending an output must occur.
        target.lm_head.weight[2] *= 1.6
    drafter.load_state_dict({k: v for k, v in target.state_dict().items() if not k.startswith("model.layers.1.")})
    for name, model in (("target", target), ("drafter", drafter)):
        model.save_pretrained(root / name)
        save_tokenizer(root / name)
    return str(root / "target"), str(root / "drafter")


def _save_adapter(folder, target, seed, scale):
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in range(2):
        for module, width in (("q_proj", HIDDEN), ("v_proj", HIDDEN // 2)):
            key = f"base_model.model.model.layers.{layer}.self_attn.{module}"
            tensors[f"{key}.lora_A.weight"] = torch.randn(RANK, HIDDEN, generator=generator) / HIDDEN**0.5
            tensors[f"{key}.lora_B.weight"] = scale * torch.randn(width, RANK, generator=generator)
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": target,
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "target_modules": ["q_proj", "v_proj"],
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))


@pytest.fixture(scope="session")
def adapters(pair, tmp_path_factory):
    """Return a weak, two strong and an exactly zero adapter by name."""
    from lora_spec.engines import AdapterRef

    root = tmp_path_factory.mktemp("adapters")
    scales = {"weak": 0.1, "strong": 0.6, "zero": 0.0, "stronger": 0.9}
    for seed, (name, scale) in enumerate(scales.items()):
        _save_adapter(root / name, pair[0], seed, scale)
    return {name: AdapterRef(name, str(root / name), RANK, has_update=scale > 0) for name, scale in scales.items()}


@pytest.fixture(scope="module")
def engine(pair, adapters):
    from lora_spec.engines import open_engine

    target, drafter = pair
    with open_engine(
        "vllm_offline",
        target=target,
        drafter=drafter,
        num_speculative_tokens=4,
        dtype="float32",
        max_model_len=160,
        max_num_seqs=8,
        max_loras=2,
        max_lora_rank=8,
    ) as started:
        yield started


@pytest.fixture(scope="session")
def prompts():
    from lora_spec.measurement import Prompt

    return [Prompt(f"p{i}", (1, *((7 * i + 3 * j) % 190 + 3 for j in range(5 + i)))) for i in range(8)]
