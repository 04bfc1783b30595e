import json

import pytest

from lora_spec.adapter import inspect_adapter
from lora_spec.errors import TrainingError
from lora_spec.provenance import sha256_of_file
from lora_spec.training.derived import random_adapter, scaled_adapter, zero_adapter
from lora_spec.training.make_adapter import make_adapter
from lora_spec.training.recipe import AdapterRecipe, RandomRecipe, ScaledRecipe

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


@pytest.fixture
def parent(tiny_target, tmp_path):
    """Return an adapter of rank 4 with an update on every module, its factors of very different sizes."""
    import torch
    from safetensors.torch import save_file

    folder = zero_adapter(tiny_target, CONTROL, tmp_path / "parent", base_model_name="tiny-target")
    torch.manual_seed(0)
    filled = {
        name: (torch.randn(tensor.shape) * 10 ** torch.randn(1)).to(torch.bfloat16)
        for name, tensor in _load(folder).items()
    }
    save_file(filled, folder / "adapter_model.safetensors")
    return folder


def _norms(folder):
    inspection = inspect_adapter(folder)
    assert inspection.status == "ok"
    return {module.name: module.fro_norm for module in inspection.modules}


def _derived(kind, **changes):
    row = {"name": "copy", "domain": "self_chat", "stratum": "control", "license": "Apache-2.0", "parent": "parent"}
    return kind(**{**row, **changes})


@pytest.mark.parametrize("scale", [0.25, 0.5, 2.0, 4.0])
def test_scaling_multiplies_every_norm_and_keeps_every_direction(parent, tmp_path, scale):
    import torch

    out = scaled_adapter(parent, _derived(ScaledRecipe, scale=scale), tmp_path / "copy")
    # A power of two is exact in bf16, so the whole spectrum is multiplied exactly.
    assert _norms(out) == pytest.approx({name: scale * norm for name, norm in _norms(parent).items()}, rel=1e-12)
    copied = _load(out)
    for name, tensor in _load(parent).items():
        assert torch.equal(copied[name], tensor * scale if ".lora_B." in name else tensor)
    assert (out / "adapter_config.json").read_bytes() == (parent / "adapter_config.json").read_bytes()


def test_a_random_update_has_its_parents_norms_and_another_direction(parent, tmp_path):
    import torch

    out = random_adapter(parent, _derived(RandomRecipe, seed=1), tmp_path / "random")
    assert _norms(out) == pytest.approx(_norms(parent), rel=1e-2)
    drawn, trained = _load(out), _load(parent)
    assert {name: tensor.shape for name, tensor in drawn.items()} == {k: v.shape for k, v in trained.items()}
    for name_a in (name for name in trained if ".lora_A." in name):
        name_b = name_a.replace(".lora_A.", ".lora_B.")
        updates = [(tensors[name_b].float() @ tensors[name_a].float()).flatten() for tensors in (drawn, trained)]
        # Independent directions among hundreds of entries are nearly orthogonal.
        assert abs(torch.nn.functional.cosine_similarity(*updates, dim=0)) < 0.3


def test_a_random_update_repeats_for_one_seed_and_changes_with_it(parent, tmp_path):
    names = ("a", "b", "c")
    for name, seed in zip(names, (1, 1, 2), strict=True):
        random_adapter(parent, _derived(RandomRecipe, seed=seed), tmp_path / name)
    a, b, c = ((tmp_path / name / "adapter_model.safetensors").read_bytes() for name in names)
    assert a == b
    assert a != c


def test_a_random_update_of_a_zero_parent_is_zero(tiny_target, tmp_path):
    zero = zero_adapter(tiny_target, CONTROL, tmp_path / "zero", base_model_name="tiny-target")
    out = random_adapter(zero, _derived(RandomRecipe, seed=1), tmp_path / "random")
    assert set(_norms(out).values()) == {0.0}


@pytest.mark.parametrize(
    ("derive", "row"),
    [(scaled_adapter, {"kind": ScaledRecipe, "scale": 0.5}), (random_adapter, {"kind": RandomRecipe, "seed": 1})],
)
def test_a_parent_that_is_not_there_is_refused_by_name(tmp_path, derive, row):
    with pytest.raises(TrainingError, match=r"row 'copy'.*parent 'parent' in .*gone"):
        derive(tmp_path / "gone", _derived(**row), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_parent_with_more_than_factors_of_linear_layers_is_refused(parent, tmp_path):
    from safetensors.torch import save_file

    name = "base_model.model.model.embed_tokens.lora_embedding_A"
    tensors = _load(parent)
    shape = {name: (4, 259), name.replace("_A", "_B"): (32, 4)}
    save_file(
        {**tensors, **{key: tensors[next(iter(tensors))].new_ones(size) for key, size in shape.items()}},
        parent / "adapter_model.safetensors",
    )
    with pytest.raises(TrainingError, match="row 'copy'"):
        scaled_adapter(parent, _derived(ScaledRecipe, scale=0.5), tmp_path / "out")


def test_a_derived_row_is_made_from_its_parents_folder_alone(parent, tmp_path):
    row = _derived(ScaledRecipe, scale=2.0)
    settings = {"base_model_name": "tiny-target", "answers_dir": None, "num_threads": 1}
    with pytest.raises(TrainingError, match="pass the folder of its parent"):
        make_adapter(tmp_path / "no-target", row, tmp_path / "out", **settings)
    out = make_adapter(tmp_path / "no-target", row, tmp_path / "out", parent_dir=parent, **settings)
    recipe = json.loads((out / "recipe.json").read_text())
    assert recipe["row"] == row.to_dict()
    assert recipe["parent_sha256"] == sha256_of_file(parent / "adapter_model.safetensors")


@pytest.mark.parametrize("scale", [1e300, 1e41, 1e-41, 1e-300])
def test_a_multiple_that_cannot_be_stored_is_refused_and_leaves_nothing(parent, tmp_path, scale):
    with pytest.raises(TrainingError, match="is not held by bfloat16"):
        scaled_adapter(parent, _derived(ScaledRecipe, scale=scale), tmp_path / "far")
    assert not (tmp_path / "far").exists()
