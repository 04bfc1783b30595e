"""Scores of a plain forward pass, on texts drawn here from the same law, greedily, and under another adapter."""

from math import sqrt

import pytest

pytestmark = [pytest.mark.serving, pytest.mark.filterwarnings("default")]
PROMPT = (1, 5, 9, 30, 77)
TEMPERATURE = 0.8


def _model(pair, adapter):
    from peft import PeftModel
    from transformers import LlamaForCausalLM

    base = LlamaForCausalLM.from_pretrained(pair[0])
    return (PeftModel.from_pretrained(base, adapter.path) if adapter else base).eval()


def _write(model, num_tokens, choose):
    import torch

    ids = list(PROMPT)
    with torch.inference_mode():
        for _ in range(num_tokens):
            ids.append(int(choose(model(torch.tensor([ids])).logits[0, -1])))
    return tuple(ids[len(PROMPT) :])


def _sample(logits):
    import torch

    return torch.multinomial(torch.softmax(logits / TEMPERATURE, dim=-1), 1)


def _z(score):
    return (score["surprisal"] - score["entropy"]) / sqrt(score["variance"])


@pytest.fixture(scope="module")
def scores(pair, adapters):
    import torch

    from lora_spec.engines.text_scores import ScoredText, score_texts

    torch.manual_seed(0)
    strong = _model(pair, adapters["strong"])
    texts = {
        "sampled": (_write(strong, 150, _sample), "strong"),
        "greedy": (_write(strong, 40, lambda logits: logits.argmax()), "strong"),
        "of the base": (_write(_model(pair, None), 150, _sample), "strong"),
        "base": (_write(_model(pair, None), 150, _sample), None),
    }
    return score_texts(
        pair[0],
        {name: adapters[name].path for name in ("strong", "weak")},
        [ScoredText(name, PROMPT, ids, adapter) for name, (ids, adapter) in texts.items()],
        temperatures={name: 0.0 if name == "greedy" else TEMPERATURE for name in texts},
        num_threads=1,
    )


@pytest.mark.parametrize("name", ["sampled", "base"])
def test_text_drawn_from_the_law_is_as_likely_as_it_should_be(scores, name):
    assert abs(_z(scores[name])) < 4


def test_text_of_the_base_is_unlikely_under_the_adapter(scores):
    assert _z(scores["of the base"]) > 4
    assert scores["of the base"]["log_ratio_to_base"] < 0 < scores["sampled"]["log_ratio_to_base"]


def test_greedy_text_lies_nowhere_below_the_best_token_and_sampled_text_does(scores):
    assert max(scores["greedy"]["gaps"]) == 0
    assert len(scores["greedy"]["gaps"]) == 40
    assert max(scores["sampled"]["gaps"]) > 0


def test_the_base_is_its_own_base(scores):
    assert scores["base"]["log_ratio_to_base"] == 0
