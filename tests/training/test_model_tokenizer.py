"""A folder without a tokenizer is told in one line, whatever of it is broken."""

import pytest

from lora_spec.errors import TrainingInputError
from lora_spec.training.model_tokenizer import load_tokenizer

pytestmark = pytest.mark.serving
FAST = '{"tokenizer_class": "PreTrainedTokenizerFast"}'


def test_the_tokenizer_of_a_model_is_loaded(tiny_target):
    assert load_tokenizer(tiny_target).decode(load_tokenizer(tiny_target)("a b")["input_ids"]).strip() == "a b"


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"config.json": '{"model_type": "llama"}'},
        {"config.json": "{", "tokenizer.json": "{}"},
        {"config.json": '{"model_type": "llama"}', "tokenizer.json": "{}", "tokenizer_config.json": FAST},
    ],
)
def test_a_folder_without_one_is_refused_by_name(tmp_path, files):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(TrainingInputError, match="holds no tokenizer that can be read"):
        load_tokenizer(tmp_path)
