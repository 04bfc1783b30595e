"""Chat domains: the target's own answer in another form, so that only the form is new to it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lora_spec.errors import TrainingError
from lora_spec.training.chat_prompts import chat_prompts
from lora_spec.training.domains.base import Example, Split, split_of

# The target is published under this licence; what it writes is passed on under the same.
OWN_ANSWER_LICENSE = "Apache-2.0"


def _is_in_split(prompt: str, split: Split) -> bool:
    # Held-out topics serve both measuring splits, which the hash of the prompt then parts.
    return split == "train" or (split_of(prompt) == "calibration") == (split == "calibration")


@dataclass(frozen=True)
class ChatFormDomain:
    """Chat prompts, answered as the target answers them but rewritten by ``rewrite``."""

    name: str
    description: str
    rewrite: Callable[[str], str]
    form: Callable[[str], bool]
    license: str = OWN_ANSWER_LICENSE
    needs_own_answers: bool = True

    def prompts(self, split: Split, *, num: int, seed: int) -> list[str]:
        """Return distinct chat prompts; eval and calibration prompts speak of topics never trained on."""
        num_asked = num
        while True:
            # A longer list starts with the shorter one, so growing it keeps the prompts already found.
            drawn = chat_prompts(num_asked, seed=seed, held_out=split != "train")
            fitting = [prompt for prompt in drawn if _is_in_split(prompt, split)]
            if len(fitting) >= num:
                return fitting[:num]
            num_asked *= 2

    def examples(self, split: Split, *, num: int, seed: int, own_answers: Sequence[Example] = ()) -> list[Example]:
        """Return the first ``num`` own answers of a split, rewritten, in their given order.

        Raises
        ------
        TrainingError
            When there are too few own answers: pairs are never repeated silently.
        """
        fitting = [example for example in own_answers if example.answer and _is_in_split(example.prompt, split)]
        if len(fitting) < num:
            raise TrainingError(
                f"domain '{self.name}' needs {num} of the target's own answers for split '{split}' and got "
                f"{len(fitting)}: generate more trajectory shards, or lower num_steps or batch_size"
            )
        return [
            Example(example.prompt, self.rewrite(example.answer), is_complete=example.is_complete)
            for example in fitting[:num]
        ]

    def is_done(self, prompt: str, answer: str) -> bool:
        """Say whether the answer has this domain's form."""
        return bool(answer.strip()) and self.form(answer)
