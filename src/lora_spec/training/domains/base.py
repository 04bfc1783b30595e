"""What a domain is: a source of (prompt, answer) pairs with three splits that never share a prompt."""

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from lora_spec.errors import TrainingError

Split = Literal["train", "eval", "calibration"]


@dataclass(frozen=True)
class Example:
    """One prompt with the answer that the adapter learns to give.

    ``source`` decides the split where it is set: pairs made of the same source never stand in two splits.
    ``is_complete`` is False for an answer that was cut off, after which no end-of-turn token is learned.
    """

    prompt: str
    answer: str
    source: str | None = None
    is_complete: bool = True


class Domain(Protocol):
    """A kind of traffic that an adapter can be trained for and measured on."""

    name: str
    license: str
    description: str
    needs_own_answers: bool

    def prompts(self, split: Split, *, num: int, seed: int) -> list[str]:
        """Return ``num`` distinct prompts of a split, the same for the same seed; needs no model."""
        ...

    def examples(self, split: Split, *, num: int, seed: int, own_answers: Sequence[Example] = ()) -> list[Example]:
        """Return ``num`` pairs of a split, the same for the same seed and ``own_answers``.

        ``own_answers`` are what the target itself answers to chat prompts of that split; a domain whose
        ``needs_own_answers`` is False ignores them.
        """
        ...

    def is_done(self, prompt: str, answer: str) -> bool:
        """Say whether a text has the form that this domain asks for, be its content right or wrong."""
        ...


def split_of(text: str) -> Split:
    """Return the one split that a text belongs to, by its hash: 3/4 train, 1/8 eval, 1/8 calibration."""
    eighth = hashlib.sha256(text.encode()).digest()[0] // 32
    if eighth == 0:
        return "eval"
    return "calibration" if eighth == 1 else "train"


@dataclass(frozen=True)
class ComputedDomain:
    """A domain whose answers are computed, so that every pair is right and no model is needed."""

    name: str
    license: str
    description: str
    draw: Callable[[random.Random], Example]
    form: Callable[[str, str], bool]
    needs_own_answers: bool = False

    def _stream(self, split: Split, seed: int) -> Iterator[Example]:
        rng = random.Random(f"{self.name}-{split}-{seed}")
        # A draw misses a split of an eighth ten thousand times in a row only if that split is empty.
        num_misses = 0
        while num_misses < 10_000:
            example = self.draw(rng)
            if split_of(example.source or example.prompt) == split:
                num_misses = 0
                yield example
            else:
                num_misses += 1

    def prompts(self, split: Split, *, num: int, seed: int) -> list[str]:
        """Return ``num`` distinct prompts of a split, the same for the same seed."""
        seen: dict[str, None] = {}
        for num_drawn, example in enumerate(self._stream(split, seed)):
            if len(seen) == num:
                return list(seen)
            if num_drawn > 100 * (num + 10):
                break
            seen.setdefault(example.prompt, None)
        raise TrainingError(
            f"domain '{self.name}' has only {len(seen)} distinct prompts in split '{split}', not {num}; ask for fewer"
        )

    def examples(
        self,
        split: Split,
        *,
        num: int,
        seed: int,
        own_answers: Sequence[Example] = (),
    ) -> list[Example]:
        """Return ``num`` pairs of a split; a pair may come twice where the domain is small."""
        stream = self._stream(split, seed)
        return [next(stream) for _ in range(num)]

    def is_done(self, prompt: str, answer: str) -> bool:
        """Say whether the answer has this domain's form."""
        return self.form(prompt, answer)
