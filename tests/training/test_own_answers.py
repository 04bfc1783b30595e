import pytest

from lora_spec.errors import TrainingError
from lora_spec.training.batches import encode_pair
from lora_spec.training.domains import Example
from lora_spec.training.own_answers import read_own_answers
from lora_spec.training.trajectories import write_shard


class OneTokenPerCharacter:
    """A tokenizer whose token ids are code points and whose turn ends with '|'."""

    eos_token_id = ord("|")

    def apply_chat_template(self, messages, *, tokenize, add_generation_prompt):
        assert not tokenize
        assert add_generation_prompt
        return f"user: {messages[0]['content']} model: "

    def encode(self, text, *, add_special_tokens):
        assert not add_special_tokens
        return [ord(character) for character in text]

    def decode(self, token_ids):
        return "".join(chr(token) for token in token_ids)


TOKENIZER = OneTokenPerCharacter()


def _ids(text):
    return [ord(character) for character in text]


def test_own_answers_come_back_as_text_and_say_whether_they_ended(tmp_path):
    pairs = [(_ids("user: Hi? model: "), _ids("Hello.|")), (_ids("user: Why? model: "), _ids("Because of"))]
    write_shard(tmp_path / "a.npz", pairs)
    write_shard(tmp_path / "b.npz", pairs[:1])
    got = read_own_answers([tmp_path / "a.npz", tmp_path / "b.npz"], tokenizer=TOKENIZER)
    first = Example("Hi?", "Hello.", is_complete=True)
    assert got == [first, Example("Why?", "Because of", is_complete=False), first]


def test_trajectories_of_another_chat_template_are_refused(tmp_path):
    write_shard(tmp_path / "a.npz", [(_ids("<human> Hi?"), _ids("Hello.|"))])
    with pytest.raises(TrainingError, match="not made with this target's chat template"):
        read_own_answers([tmp_path / "a.npz"], tokenizer=TOKENIZER)


def test_encoded_pair_ends_with_the_end_of_turn_only_when_the_answer_is_whole():
    whole = encode_pair(Example("Hi?", "Hello."), tokenizer=TOKENIZER, max_tokens=100)
    assert TOKENIZER.decode(whole.token_ids) == "user: Hi? model: Hello.|"
    assert whole.num_prompt_tokens == len("user: Hi? model: ")
    open_ended = encode_pair(Example("Hi?", "Hello.", is_complete=False), tokenizer=TOKENIZER, max_tokens=100)
    assert TOKENIZER.decode(open_ended.token_ids) == "user: Hi? model: Hello."
    cut = encode_pair(Example("Hi?", "Hello."), tokenizer=TOKENIZER, max_tokens=20)
    assert TOKENIZER.decode(cut.token_ids) == "user: Hi? model: Hel"


def test_a_prompt_that_leaves_no_room_for_an_answer_is_an_error():
    with pytest.raises(TrainingError, match="has 17 tokens and leaves no room"):
        encode_pair(Example("Hi?", "Hello."), tokenizer=TOKENIZER, max_tokens=17)
