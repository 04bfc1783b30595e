import pytest

from lora_spec.errors import TrainingError
from lora_spec.training.derived import scaled_adapter, zero_adapter
from lora_spec.training.merged import merged_weights
from lora_spec.training.recipe import AdapterRecipe, ScaledRecipe

pytestmark = pytest.mark.serving

ROW = AdapterRecipe(
    name="a",
    domain="self_chat",
    stratum="control",
    rank=4,
    alpha=8,
    use_rslora=True,
    target_modules=("q_proj", "v_proj", "down_proj"),
    learning_rate=0.0,
    num_steps=0,
    batch_size=1,
    seed=5,
    license="Apache-2.0",
)


@pytest.fixture
def adapter(tiny_target, tmp_path):
    """Return an rsLoRA adapter with random B, stored in bf16."""
    import torch
    from safetensors.torch import load_file, save_file

    folder = zero_adapter(tiny_target, ROW, tmp_path / "adapter", base_model_name="tiny")
    weights = folder / "adapter_model.safetensors"
    torch.manual_seed(1)
    tensors = {n: 0.2 * torch.randn_like(t) if ".lora_B." in n else t for n, t in load_file(weights).items()}
    save_file(tensors, weights, metadata={"format": "pt"})
    return folder


def test_merging_equals_what_peft_merges(tiny_target, adapter):
    import torch
    from peft import PeftModel
    from transformers import LlamaForCausalLM

    base = LlamaForCausalLM.from_pretrained(tiny_target, dtype=torch.float32)
    by_peft = PeftModel.from_pretrained(base, adapter).merge_and_unload().state_dict()
    ours = dict(merged_weights(tiny_target, adapter))
    assert ours
    for name, weight in ours.items():
        torch.testing.assert_close(weight.float(), by_peft[name], rtol=2**-8, atol=1e-6)


def test_without_an_adapter_nothing_changes(tiny_target):
    import torch
    from transformers import LlamaForCausalLM

    base = LlamaForCausalLM.from_pretrained(tiny_target, dtype=torch.bfloat16).state_dict()
    assert all(torch.equal(weight, base[name]) for name, weight in merged_weights(tiny_target, None))


def test_an_update_of_another_shape_is_refused(tiny_target, adapter):
    from safetensors.torch import load_file, save_file

    weights = adapter / "adapter_model.safetensors"
    save_file({n: t[:5] if ".lora_B." in n else t for n, t in load_file(weights).items()}, weights)
    with pytest.raises(TrainingError, match="another model"):
        dict(merged_weights(tiny_target, adapter))


def test_merging_is_linear_in_the_scale(tiny_target, adapter, tmp_path):
    import torch

    half_row = ScaledRecipe(
        name="half", domain="self_chat", stratum="control", license="Apache-2.0", parent="a", scale=0.5
    )
    half = scaled_adapter(adapter, half_row, tmp_path / "half")
    name = "model.layers.1.self_attn.q_proj.weight"
    base, whole, part = (dict(merged_weights(tiny_target, a))[name].float() for a in (None, adapter, half))
    torch.testing.assert_close(part - base, (whole - base) / 2, rtol=0, atol=2e-3)
