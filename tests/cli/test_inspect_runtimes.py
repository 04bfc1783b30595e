"""What each server would apply of adapters that are named, stacked or filled in odd ways, as its sources say."""

import json

import build_adapter_cases as kit
import numpy as np
import pytest
from adapter_cases import Q0, P, plain, values

from lora_spec.cli.main import main

X = "model.layers.0.mlp.experts"


def renamed(prefix=P, infix="", root="model.layers."):
    def build(folder):
        folder.mkdir()
        named = kit.name_tensors(kit.standard(root=root), prefix=prefix, infix=infix)
        kit.write_adapter(folder, named, kit.settings())
        return folder

    return build


def beside(name, *shape, **config):
    return lambda folder: plain(folder, tensors={f"{P}{name}": values(*shape)}, **config)


def stacked(folder):
    modules = {X: kit.factors(np.random.default_rng(0), 16, 32, 6)}
    return plain(folder, modules=modules, r=2, target_modules=[], target_parameters=["mlp.experts.down_proj"])


@pytest.fixture
def serve(tmp_path, capsys):
    def go(build, runtime):
        main(["inspect", "--json", "--runtime", runtime, str(build(tmp_path / "a"))])
        return json.loads(capsys.readouterr().out)["served"]

    return go


# Applied modules of four (of three where stacked); None where it is not loaded at all.
NAMES = {
    "plain": (renamed(), {"vllm": 4, "peft": 4, "lorax": 4, "llama.cpp": 4, "sglang": 4}),
    "doubled prefix": (renamed(prefix=2 * P), {"vllm": 4, "peft": 0, "lorax": 0, "llama.cpp": 4}),
    "no prefix": (renamed(prefix=""), {"vllm": 4, "peft": 0, "lorax": 0, "llama.cpp": 4}),
    "adapter name": (renamed(infix=".default"), {"vllm": None, "peft": 0, "lorax": 0, "llama.cpp": None}),
    "compiled": (renamed(prefix="_orig_mod." + P), {"vllm": 0, "peft": 0, "lorax": 0, "llama.cpp": None}),
    "missing level": (renamed(root="layers."), {"vllm": 0, "peft": 0, "lorax": 0, "llama.cpp": None}),
    "stacked experts": (stacked, {"peft": 3, "vllm": 3, "lorax": 0, "llama.cpp": None}),
}


@pytest.mark.parametrize(("name", "runtime"), [(name, runtime) for name in NAMES for runtime in NAMES[name][1]])
def test_names_reach_the_modules_that_the_sources_look_up(serve, name, runtime):
    build, wanted = NAMES[name]
    served = serve(build, runtime)
    assert served["is_loaded"] == (wanted[runtime] is not None)
    assert served["num_modules_applied"] == (wanted[runtime] or 0)
    told = served["refusals"] + served["warnings"]
    assert told or served["is_as_intended"]


ROWS = "model.embed_tokens.token_adapter.trainable_tokens_delta"
# A tensor beside the factors, and which converters or parsers stop at it.
BESIDE = {
    "base copy of a layer": (beside(f"{Q0}.base_layer.weight", 16, 16), {"vllm"}),
    "base copy of the embedding": (beside("model.embed_tokens.base_layer.weight", 24, 16), set()),
    "embedding": (beside("model.embed_tokens.weight", 24, 16), {"vllm", "llama.cpp"}),
    "token rows": (beside(ROWS, 1, 16, trainable_token_indices=[1]), {"vllm", "llama.cpp"}),
    "bias of a factor": (beside(f"{Q0}.lora_B.bias", 16, lora_bias=True), {"vllm", "llama.cpp"}),
    "unknown": (beside(f"{Q0}.lora_gate", 4), {"vllm", "llama.cpp"}),
    "frequencies": (beside("model.rotary_emb.inv_freq", 4), {"vllm", "llama.cpp"}),
    "final norm": (beside("model.norm.weight", 16), {"vllm"}),
    "classifier": (beside("score.weight", 2, 16, modules_to_save=["score"]), {"llama.cpp"}),
}


@pytest.mark.parametrize("runtime", ["vllm", "llama.cpp"])
@pytest.mark.parametrize("name", BESIDE)
def test_a_tensor_beside_the_factors_stops_those_that_do_not_know_it(serve, name, runtime):
    build, stopped = BESIDE[name]
    served = serve(build, runtime)
    assert served["is_loaded"] == (runtime not in stopped), served


def test_llama_cpp_converts_norm_weights_and_passes_them_over(serve):
    assert any("model.norm.weight" in warning for warning in serve(BESIDE["final norm"][0], "llama.cpp")["warnings"])


@pytest.mark.parametrize("use_rslora", [False, True])
def test_lorax_divides_by_the_rank_of_the_config_for_every_module(serve, use_rslora):
    served = serve(lambda f: plain(f, r=16, rank_pattern={".*": 4}, use_rslora=use_rslora), "lorax")
    assert {module["served_scale"] for module in served["modules"]} == {8 / 4 if use_rslora else 8 / 16}
    assert any("rank_pattern" in warning for warning in served["warnings"])


def test_vllm_says_that_bias_null_is_not_none(serve):
    assert any("null" in refusal for refusal in serve(lambda f: plain(f, bias=None), "vllm")["refusals"])


def test_vllm_takes_whole_ranks_only(serve):
    assert not serve(lambda f: plain(f, rank_pattern={"q_proj": 4.0}), "vllm")["is_loaded"]


@pytest.mark.parametrize("runtime", ["lorax", "llama.cpp"])
def test_a_served_norm_beyond_float64_is_told_and_not_printed(serve, runtime):
    served = serve(
        lambda f: plain(f, lora_alpha=1.7e308, alpha_pattern={".*": 1e-10}, r=1, rank_pattern={".*": 4}), runtime
    )
    huge = served["total_fro_norm"]
    assert huge is None or np.isfinite(huge)


@pytest.mark.parametrize("runtime", ["sglang", "lorax", "llama.cpp"])
def test_what_could_not_be_read_in_a_source_is_told(serve, runtime):
    assert "not" in serve(renamed(), runtime)["basis"]
