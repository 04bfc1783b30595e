import pytest

from lora_spec.errors import TrainingError
from lora_spec.training.derived import scaled_adapter, zero_adapter
from lora_spec.training.recipe import AdapterRecipe

pytestmark = pytest.mark.serving

CONTROL = AdapterRecipe(
    name="zero",
    domain="self_chat",
    stratum="control",
    rank=4,
    alpha=8,
    target_modules=("q_proj", "v_proj"),
    learning_rate=0.0,
    num_steps=0,
    batch_size=1,
    seed=5,
    license="Apache-2.0",
)


def _logits(target, adapter):
    import torch
    from peft import PeftModel
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(target, dtype=torch.float32)
    if adapter is not None:
        model = PeftModel.from_pretrained(model, adapter)
    with torch.no_grad():
        return model(input_ids=torch.arange(3, 40)[None]).logits


def _load(folder):
    from safetensors.torch import load_file

    return load_file(folder / "adapter_model.safetensors")


def test_zero_adapter_changes_no_logit_at_all(tiny_target, tmp_path):
    import torch

    out = zero_adapter(tiny_target, CONTROL, tmp_path / "zero", base_model_name="tiny-target")
    assert torch.equal(_logits(tiny_target, None), _logits(tiny_target, out))
    tensors = _load(out)
    assert all(tensor.count_nonzero() == 0 for name, tensor in tensors.items() if ".lora_B." in name)
    assert all(tensor.count_nonzero() > 0 for name, tensor in tensors.items() if ".lora_A." in name)


def test_zero_adapter_is_the_same_file_each_time(tiny_target, tmp_path):
    first, second = (
        zero_adapter(tiny_target, CONTROL, tmp_path / name, base_model_name="tiny-target") for name in ("a", "b")
    )
    for name in ("adapter_model.safetensors", "adapter_config.json", "recipe.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_a_row_to_be_trained_is_not_a_control(tiny_target, tmp_path):
    row = AdapterRecipe.from_dict(
        {**CONTROL.to_dict(), "stratum": "benign", "num_steps": 1, "learning_rate": 1e-3, "name": "chat"}
    )
    with pytest.raises(TrainingError, match="'chat' is 'benign', not a control"):
        zero_adapter(tiny_target, row, tmp_path / "out", base_model_name="tiny-target")


def test_scaling_multiplies_the_update_and_nothing_else(tiny_target, tmp_path):
    import torch
    from safetensors.torch import save_file

    parent = zero_adapter(tiny_target, CONTROL, tmp_path / "parent", base_model_name="tiny-target")
    torch.manual_seed(0)
    filled = {name: torch.randn(tensor.shape).to(torch.bfloat16) for name, tensor in _load(parent).items()}
    save_file(filled, parent / "adapter_model.safetensors")
    row = AdapterRecipe.from_dict({**CONTROL.to_dict(), "stratum": "moderate", "parent": "parent", "scale": 0.5})
    out = scaled_adapter(parent, row, tmp_path / "half", base_model_name="tiny-target")
    name = "base_model.model.model.layers.1.self_attn.q_proj.lora_{}.weight"
    half = _load(out)
    before = filled[name.format("B")].float() @ filled[name.format("A")].float()
    after = half[name.format("B")].float() @ half[name.format("A")].float()
    # A power of two is exact in bf16.
    assert torch.equal(after, 0.5 * before)


def test_scaling_a_parent_that_is_not_there_is_an_error(tmp_path):
    row = AdapterRecipe.from_dict({**CONTROL.to_dict(), "stratum": "moderate", "parent": "gone", "scale": 0.5})
    with pytest.raises(TrainingError, match="scales parent 'gone'"):
        scaled_adapter(tmp_path / "gone", row, tmp_path / "out", base_model_name="tiny-target")
