"""Tiny random Llama pairs and adapters that vLLM serves, for any vocabulary."""

import json

# vLLM's attention on the CPU wants heads of at least 32.
HIDDEN, HEADS, RANK = 64, 2, 4


def _model(num_layers, seed, vocab_size, bos, eos):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=num_layers,
        num_attention_heads=HEADS,
        num_key_value_heads=1,
        max_position_embeddings=512,
        bos_token_id=bos,
        eos_token_id=eos,
        initializer_range=0.15,
    )
    return LlamaForCausalLM(config).float().eval()


def save_pair(root, save_tokenizer, *, vocab_size, bos, eos):
    """Write target and drafter and return their folders: the drafter is the target without its weaker second layer."""
    import torch

    target, drafter = (_model(2 - i, i, vocab_size, bos, eos) for i in range(2))
    with torch.no_grad():
        for name in ("self_attn.o_proj", "mlp.down_proj"):
            target.model.layers[1].get_submodule(name).weight.mul_(0.5)
        # The end token now and then: both ways of ending an output must occur.
        target.lm_head.weight[eos] *= 1.6
    drafter.load_state_dict({k: v for k, v in target.state_dict().items() if not k.startswith("model.layers.1.")})
    for name, model in (("target", target), ("drafter", drafter)):
        model.save_pretrained(root / name)
        save_tokenizer(root / name)
    return str(root / "target"), str(root / "drafter")


def save_adapter(folder, target, seed, scale):
    """Write an adapter of q_proj and v_proj whose update grows with the scale."""
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
