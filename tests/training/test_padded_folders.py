"""Folders that no drafter can be padded from, or into, are refused before anything is written."""

import json

import pytest

from lora_spec.errors import TrainingInputError
from lora_spec.training.padded_vocabulary import pad_vocabulary

PLAIN = {"added_tokens": [], "model": {"vocab": {"a": 0, "b": 1}}}


def _folder(path, config, tokenizer=PLAIN):
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    return path


@pytest.fixture
def models(tmp_path):
    return [_folder(tmp_path / "models" / name, {"vocab_size": size}) for name, size in (("drafter", 4), ("target", 6))]


@pytest.mark.parametrize(
    "out", ["models/drafter", "models/target", "models/drafter/x", "models/target/x/y", "models", ".", "a/../models"]
)
def test_a_published_model_is_never_replaced_nor_copied_into_itself(tmp_path, models, out):
    with pytest.raises(TrainingInputError, match=r"would replace .* or lie inside it"):
        pad_vocabulary(*models, tmp_path / out)
    assert all(sorted(path.name for path in model.iterdir()) == ["config.json", "tokenizer.json"] for model in models)


@pytest.mark.parametrize("size", [None, "4", 0, -3, 4.5, True])
def test_a_configuration_that_tells_no_number_of_tokens_is_refused(tmp_path, models, size):
    odd = _folder(tmp_path / "odd", {"vocab_size": size})
    for pair in ((odd, models[1]), (models[0], odd)):
        with pytest.raises(TrainingInputError, match="no number of tokens"):
            pad_vocabulary(*pair, tmp_path / "out")


@pytest.mark.parametrize("config", [[1], {"text_config": {"vocab_size": 4}}])
def test_a_configuration_of_another_shape_is_refused(tmp_path, models, config):
    with pytest.raises(TrainingInputError, match="vocab_size is None"):
        pad_vocabulary(_folder(tmp_path / "odd", config), models[1], tmp_path / "out")


@pytest.mark.parametrize("tokenizer", [[], {}, {"model": {}}, {"model": {"vocab": 7}}, {"model": {"vocab": ["a"]}}])
def test_a_tokenizer_without_a_vocabulary_is_refused(tmp_path, models, tokenizer):
    with pytest.raises(TrainingInputError, match="no tokenizer with a vocabulary"):
        pad_vocabulary(_folder(tmp_path / "odd", {"vocab_size": 4}, tokenizer), models[1], tmp_path / "out")


def test_the_ids_of_a_unigram_model_are_the_places_in_its_list(tmp_path):
    lists = ([["a", 0.0], ["b", -1.0]], [["b", 0.0], ["a", -1.0]])
    pair = [
        _folder(tmp_path / str(size), {"vocab_size": size}, {"model": {"vocab": vocab}})
        for size, vocab in zip((4, 6), lists, strict=True)
    ]
    with pytest.raises(TrainingInputError, match="differ, at token 'a'"):
        pad_vocabulary(*pair, tmp_path / "out")
