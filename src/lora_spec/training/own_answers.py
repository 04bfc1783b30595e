"""The target's own answers as text, read back from trajectory shards."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_spec.errors import TrainingInputError
from lora_spec.training.domains import Example
from lora_spec.training.trajectories import read_shard

# Greedy answers to training topics, and to held-out topics; four digits leave out shards half written.
_TRAIN_PATTERN = "greedy-[0-9][0-9][0-9][0-9].npz"
_HELD_OUT_PATTERN = "heldout-[0-9][0-9][0-9][0-9].npz"


@dataclass(frozen=True)
class OwnAnswers:
    """The target's own answers, for domains that rewrite them: to training topics and to held-out topics."""

    train: Sequence[Example] = ()
    held_out: Sequence[Example] = ()


def _user_text(prompt: str, tokenizer: Any) -> str:
    # The template is cut where it puts the user's words, rather than parsed by a pattern of one model family.
    mark = "\x00"
    before, after = tokenizer.apply_chat_template(
        [{"role": "user", "content": mark}], tokenize=False, add_generation_prompt=True
    ).split(mark)
    if not (prompt.startswith(before) and prompt.endswith(after)):
        raise TrainingInputError(
            f"a trajectory's prompt {prompt[:80]!r}... was not made with this target's chat template: "
            "generate the shards again with the target in use"
        )
    return prompt[len(before) : len(prompt) - len(after)]


def read_own_answers(shards: Sequence[Path], *, tokenizer: Any) -> list[Example]:
    """Return (prompt, answer) texts of all shards, in their given order.

    An answer is complete where its last token is the end-of-turn token, which the text leaves out.

    Raises
    ------
    TrainingInputError
        When a prompt does not follow the tokenizer's chat template.
    """
    examples = []
    for shard in shards:
        for token_ids, num_prompt_tokens in read_shard(shard):
            prompt = tokenizer.decode(token_ids[:num_prompt_tokens])
            answer = token_ids[num_prompt_tokens:].tolist()
            is_complete = bool(answer) and answer[-1] == tokenizer.eos_token_id
            text = tokenizer.decode(answer[:-1] if is_complete else answer)
            examples.append(Example(_user_text(prompt, tokenizer), text, is_complete=is_complete))
    return examples


def load_own_answers(answers_dir: Path, *, tokenizer: Any) -> OwnAnswers:
    """Return the target's greedy answers from a folder of trajectory shards.

    Raises
    ------
    TrainingInputError
        When the folder has no shard of one of the two kinds.
    """
    found = {pattern: sorted(answers_dir.glob(pattern)) for pattern in (_TRAIN_PATTERN, _HELD_OUT_PATTERN)}
    for pattern, shards in found.items():
        if not shards:
            raise TrainingInputError(f"{answers_dir} has no shard {pattern}: generate the target's trajectories first")
    train, held_out = (read_own_answers(shards, tokenizer=tokenizer) for shards in found.values())
    return OwnAnswers(train, held_out)
