"""The trace of a real model against the model itself: margins after a small update, inputs averaged directly."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from lora_spec.adapter import inspect_adapter, iterate_factors
from lora_spec.base_trace import BEST, OTHER
from lora_spec.engines.tape import leading_pairs
from lora_spec.engines.trace import TraceSettings, trace_base
from lora_spec.features.base_profile import profile_of, read_base_profile, write_base_profile
from lora_spec.features.base_profile_header import header_of, identify_model
from lora_spec.features.on_base import put_on_base

pytestmark = [pytest.mark.serving, pytest.mark.filterwarnings("default")]
MESSAGES = tuple(" ".join(f"w{(11 * i + 5 * j) % 190}" for j in range(4 + i)) for i in range(5))
# Every text is shorter than this, so that no term of a gradient and no direction is left out.
ALL = 256
SETTINGS = TraceSettings(max_tokens=12, num_positions=17, num_pairs=ALL, num_directions=ALL, seed=3)


def profile(trace, pair, num_pairs=ALL):
    settings = {"num_prompts": len(MESSAGES), "max_tokens": 12, "num_positions": 17, "num_pairs": num_pairs}
    return profile_of(
        trace,
        header_of(
            trace,
            tier="test",
            provenance={},
            target=identify_model("target", Path(pair[0])),
            drafter=identify_model("drafter", Path(pair[1])),
            prompts_sha256=["0" * 64],
            dtype="float64",
            settings={**settings, "num_directions": ALL, "seed": 3},
        ),
    )


@pytest.fixture(scope="module")
def trace(pair):
    return trace_base(*pair, MESSAGES, SETTINGS, dtype="float64", num_threads=1)


def model_with(pair, adapter, size):
    """Return the target in float64 with an adapter's update, times a size, added to its weights."""
    import torch
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(pair[0], dtype=torch.float64).eval()
    with torch.no_grad():
        for factors in iterate_factors(Path(adapter.path)):
            update = size * factors.module.scale * factors.b @ factors.a
            model.get_submodule(factors.module.name).weight += torch.from_numpy(update)
    return model


def margins(model, trace):
    """Return the difference of the two traced tokens' logits at every traced position."""
    import torch

    found = []
    with torch.inference_mode():
        for index, position, best, second in trace.places.tolist():
            prompt, output = trace.texts[index]
            ids = [*prompt, *output[:position]]
            logits = model(torch.tensor([ids])).logits[0, -1]
            found.append(float(logits[best] - logits[second]))
    return np.array(found)


def put(adapter, trace, pair):
    folder = Path(adapter.path)
    return put_on_base(folder, inspect_adapter(folder), profile(trace, pair))


@pytest.mark.parametrize("name", ["strong", "weak"])
def test_first_order_changes_are_the_models_own_derivatives(trace, pair, adapters, name):
    # The model norms in float32 whatever its weights are: margins hold to 1e-6, their difference over a step of 1e-2 to
    # 1e-4 of these derivatives. The five-point rule errs by the fourth power of the step, which is less.
    step = 1e-2
    at = {k: margins(model_with(pair, adapters[name], k * step), trace) for k in (-2, -1, 1, 2)}
    derivative = (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * step)
    found = sum(update.margin_changes for update in put(adapters[name], trace, pair))
    assert found == pytest.approx(derivative, abs=1e-4 * np.abs(derivative).max())
    assert len(np.unique(np.sign(derivative))) == 2


def test_margins_are_those_of_the_greedy_text(trace, pair, adapters):
    assert margins(model_with(pair, adapters["zero"], 1), trace) == pytest.approx(trace.margins, rel=1e-5)
    assert (trace.margins > 0).all()
    for index, position, best, _ in trace.places.tolist():
        assert trace.texts[index][1][position] == best


def test_moments_are_averages_over_the_output_positions(trace, pair, adapters):
    import torch

    model, adapter = model_with(pair, adapters["zero"], 0), adapters["strong"]
    updates = {update.name: update for update in put(adapter, trace, pair)}
    for factors in iterate_factors(Path(adapter.path)):
        seen, name = [], factors.module.name
        hook = model.get_submodule(name).register_forward_hook(
            lambda m, given, out, seen=seen: seen.append((given[0], out))
        )
        rows = []
        with torch.inference_mode():
            for prompt, output in trace.texts:
                model(torch.tensor([[*prompt, *output[:-1]]]))
                rows.append([part[0, len(prompt) - 1 :] for part in seen[-1]])
        hook.remove()
        inputs, outputs = (torch.cat(part).numpy() for part in zip(*rows, strict=True))
        assert len(inputs) == trace.num_tokens == sum(len(output) for _, output in trace.texts)
        delta = factors.module.scale * factors.b @ factors.a
        wanted = math.sqrt(np.mean(np.sum((inputs @ delta.T) ** 2, axis=1)))
        assert updates[name].shift == pytest.approx(wanted, rel=1e-5)
        own = math.sqrt(np.mean(np.sum(outputs**2, axis=1)))
        assert updates[name].relative_shift == pytest.approx(wanted / own, rel=1e-5)


def test_the_drafters_choice_is_told_by_its_rank_in_the_target(trace, pair):
    import torch
    from transformers import LlamaForCausalLM

    drafter = LlamaForCausalLM.from_pretrained(pair[1], dtype=torch.float64).eval()
    with torch.inference_mode():
        for (index, position, *best), choice in zip(trace.places.tolist(), trace.drafter_choices, strict=True):
            prompt, output = trace.texts[index]
            ids = [*prompt, *output[:position]]
            drafted = int(drafter(torch.tensor([ids])).logits[0, -1].argmax())
            assert choice == (best.index(drafted) if drafted in best else OTHER)
    assert BEST in trace.drafter_choices


def test_modules_that_read_the_same_input_share_its_moments(trace):
    inputs = {module.name: module.input_name for module in trace.modules}
    assert len(inputs) == 2 * 7
    assert len(trace.moments) == 2 * 4
    for layer in ("model.layers.0", "model.layers.1"):
        assert {inputs[f"{layer}.self_attn.{name}_proj"] for name in "qkv"} == {f"{layer}.self_attn.q_proj"}
        assert inputs[f"{layer}.mlp.up_proj"] == f"{layer}.mlp.gate_proj"


def test_few_terms_are_the_best_approximation_of_the_gradient(trace, pair):
    few = trace_base(*pair, MESSAGES, TraceSettings(12, 17, 2, 3, 3), dtype="float64", num_threads=1)
    for whole, part in zip(trace.modules, few.modules, strict=True):
        exact = np.einsum("tio,tin->ton", whole.gradients, whole.inputs)
        kept = np.einsum("tio,tin->ton", part.gradients, part.inputs)
        values = np.linalg.svd(exact, compute_uv=False)
        missed = np.sqrt((values[:, 2:] ** 2).sum(axis=1))
        assert np.linalg.norm(exact - kept, axis=(1, 2)) == pytest.approx(missed, rel=1e-6, abs=1e-9)
        assert part.kept_share == pytest.approx((values[:, :2] ** 2).sum() / (values**2).sum(), rel=1e-6)
        assert whole.kept_share == pytest.approx(1)


def test_the_file_gives_the_same_numbers_up_to_its_rounding(trace, pair, adapters, tmp_path):
    path, folder = tmp_path / "p.safetensors", Path(adapters["strong"].path)
    few = trace_base(*pair, MESSAGES, TraceSettings(12, 17, 4, 16, 3), num_threads=1)
    exact = profile(few, pair, num_pairs=4)
    write_base_profile(path, exact)
    inspection = inspect_adapter(folder)
    for one, other in zip(
        put_on_base(folder, inspection, exact), put_on_base(folder, inspection, read_base_profile(path)), strict=True
    ):
        assert other.shift == pytest.approx(one.shift, rel=2e-3)  # float16 directions
        rounding = 0.03 * np.sqrt(np.mean(one.margin_changes**2))  # a byte per number, a few terms of either sign
        assert other.margin_changes == pytest.approx(one.margin_changes, abs=rounding)


def test_a_gradient_of_fewer_terms_is_filled_up_with_zeros():
    import torch

    inputs, gradients = torch.randn(2, 5), torch.randn(2, 3)
    kept_x, kept_g, kept, whole = leading_pairs(inputs, gradients, 4)
    assert kept_g.T @ kept_x == pytest.approx((gradients.T @ inputs).numpy(), abs=1e-5)
    assert not kept_x[2:].any()
    assert kept == pytest.approx(whole)


def test_the_script_writes_a_profile_of_the_fit_prompts_alone(pair, tmp_path, monkeypatch, capsys):
    import runpy
    import sys

    from lora_spec.results import write_result

    one = {"prompt_set": "common", "max_tokens": 8, "temperature": 0.0, "license": "CC0-1.0", "domain": "chat"}
    sets = [
        {**one, "role": "fit", "prompts": list(MESSAGES[:3]), "sha256": "a" * 64},
        {**one, "role": "evaluation", "prompts": ["w1 w2"] * 3, "sha256": "b" * 64},
    ]
    circumstances = {"evidence": "contract-only", "tier": "test", "provenance": {}}
    write_result(tmp_path / "prompts.json", kind="prompts", payload={"sets": sets}, **circumstances)
    amounts = {"num_prompts": 2, "max_tokens": 8, "num_positions": 6, "num_pairs": 2, "num_directions": 4, "seed": 0}
    names = {"target_model": "target", "draft_model": "drafter", "engine": "none"}
    words = {
        "target": pair[0],
        "drafter": pair[1],
        "prompts": tmp_path / "prompts.json",
        "settings": json.dumps({"base_profile": amounts, "context": names}),
        "tier": "test",
        "num-threads": 1,
        "output": tmp_path / "p.safetensors",
    }
    flags = [str(word) for name, value in words.items() for word in (f"--{name}", value)]
    script = Path(__file__).parents[2] / "scripts" / "base_profile.py"
    monkeypatch.setattr(sys, "argv", [str(script), *flags])
    runpy.run_path(str(script), run_name="__main__")
    written = read_base_profile(tmp_path / "p.safetensors")
    assert written.header["prompts_sha256"] == ["a" * 64]
    assert written.header["settings"] == amounts
    assert len(written.margins) == 6
    assert set(written.places[:, 0]) <= {0, 1}
