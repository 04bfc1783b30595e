import json

import pytest

from lora_spec.errors import TrainingError
from lora_spec.provenance import sha256_of_file
from lora_spec.training.drafter import assemble_drafter, init_drafter, save_drafter_layers

pytestmark = pytest.mark.serving


def _logits(model):
    import torch

    with torch.no_grad():
        return model(input_ids=torch.arange(3, 40)[None]).logits.float()


def _load(folder):
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def test_a_drafter_of_all_layers_is_the_target_itself(tiny_target):
    import torch

    assert torch.equal(_logits(init_drafter(tiny_target, layers=[0, 1, 2])), _logits(_load(tiny_target)))


def test_only_layers_and_the_last_norm_are_trained(tiny_target):
    drafter = init_drafter(tiny_target, layers=[0, 2])
    trained = {name for name, parameter in drafter.named_parameters() if parameter.requires_grad}
    frozen = {name for name, parameter in drafter.named_parameters() if not parameter.requires_grad}
    assert frozen == {"model.embed_tokens.weight"}
    assert "model.norm.weight" in trained
    assert {name.split(".")[2] for name in trained if ".layers." in name} == {"0", "1"}


def test_an_assembled_drafter_computes_what_was_saved(tiny_target, tmp_path):
    import torch
    from safetensors import safe_open

    drafter = init_drafter(tiny_target, layers=[2, 0])
    torch.manual_seed(1)
    for parameter in drafter.parameters():
        if parameter.requires_grad:
            parameter.data += 0.1 * torch.randn_like(parameter)
    layers = tmp_path / "layers.safetensors"
    save_drafter_layers(drafter, layers, metadata={"license": "Apache-2.0"})
    with safe_open(layers, "pt") as file:
        assert file.metadata() == {"license": "Apache-2.0"}
        assert "model.embed_tokens.weight" not in file.keys()  # noqa: SIM118
    out = assemble_drafter(tiny_target, layers, tmp_path / "drafter")
    for parameter in drafter.parameters():
        parameter.data = parameter.data.to(torch.bfloat16).float()
    assert torch.equal(_logits(_load(out)), _logits(drafter))


def test_an_assembled_drafter_is_a_plain_model_with_the_targets_tokenizer(tiny_target, tmp_path):
    from transformers import AutoTokenizer

    layers = tmp_path / "layers.safetensors"
    save_drafter_layers(init_drafter(tiny_target, layers=[0, 2]), layers, metadata={})
    out = assemble_drafter(tiny_target, layers, tmp_path / "drafter")
    config = json.loads((out / "config.json").read_text())
    target = json.loads((tiny_target / "config.json").read_text())
    assert config["num_hidden_layers"] == 2
    assert config["dtype"] == "bfloat16"
    assert config["tie_word_embeddings"]
    assert config["vocab_size"] == target["vocab_size"]
    ours, theirs = (AutoTokenizer.from_pretrained(folder) for folder in (out, tiny_target))
    assert ours.get_vocab() == theirs.get_vocab()
    assert ours.chat_template == theirs.chat_template


def test_assembling_twice_gives_the_same_weights(tiny_target, tmp_path):
    layers = tmp_path / "layers.safetensors"
    save_drafter_layers(init_drafter(tiny_target, layers=[0, 2]), layers, metadata={})
    first, second = (assemble_drafter(tiny_target, layers, tmp_path / name) for name in ("a", "b"))
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()


def test_a_layer_that_the_target_lacks_is_an_error(tiny_target):
    with pytest.raises(TrainingError, match="has no layer 7"):
        init_drafter(tiny_target, layers=[0, 7])


def test_layers_of_another_hash_than_pinned_are_refused(tiny_target, tmp_path):
    layers = tmp_path / "layers.safetensors"
    save_drafter_layers(init_drafter(tiny_target, layers=[0]), layers, metadata={})
    with pytest.raises(TrainingError, match=f"SHA-256 {sha256_of_file(layers)}, expected {'0' * 64}"):
        assemble_drafter(tiny_target, layers, tmp_path / "drafter", sha256="0" * 64)
    assert assemble_drafter(tiny_target, layers, tmp_path / "drafter", sha256=sha256_of_file(layers)).is_dir()


def test_truncated_layers_are_an_error_and_write_nothing(tiny_target, tmp_path):
    layers = tmp_path / "layers.safetensors"
    save_drafter_layers(init_drafter(tiny_target, layers=[0]), layers, metadata={})
    layers.write_bytes(layers.read_bytes()[:-100])
    with pytest.raises(TrainingError, match=r"layers\.safetensors cannot be read"):
        assemble_drafter(tiny_target, layers, tmp_path / "drafter")
    assert not (tmp_path / "drafter").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop("model.norm.weight"), r"missing \['model.norm.weight'\]"),
        (lambda tensors: tensors.update(extra=tensors["model.norm.weight"].clone()), r"unexpected \['extra'\]"),
        (
            lambda tensors: tensors.update({"model.norm.weight": tensors["model.norm.weight"][:8].clone()}),
            r"model.norm.weight has shape \(8,\), the target needs \(32,\)",
        ),
    ],
)
def test_layers_of_another_target_are_refused(tiny_target, tmp_path, change, message):
    from safetensors.torch import load_file, save_file

    layers = tmp_path / "layers.safetensors"
    save_drafter_layers(init_drafter(tiny_target, layers=[0, 2]), layers, metadata={})
    tensors = load_file(layers)
    change(tensors)
    save_file(tensors, layers)
    with pytest.raises(TrainingError, match=message):
        assemble_drafter(tiny_target, layers, tmp_path / "drafter")
