"""How much of each domain's text stands in the text that a drafter was distilled on: counts, without any model.

Like is held against like: prompts against the users' words that the drafter read, wanted answers against what the
target wrote, which is what the drafter learned to write. Tokens are the target's; no n-gram crosses the border of a
text. Answers end with the end-of-turn token unless they were cut.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from lora_spec.config.distillation import TrajectoriesConfig
from lora_spec.config.fields import Seed
from lora_spec.errors import ConfigError, TrainingInputError
from lora_spec.training.batches import encode_pair
from lora_spec.training.domains import Example, Split, find_domain
from lora_spec.training.fit_prompts import PromptsPayload
from lora_spec.training.frozen_prompts import FrozenPrompts
from lora_spec.training.own_answers import OwnAnswers
from lora_spec.training.own_trajectories import HELDOUT_STEM, planned_shards
from lora_spec.training.trajectories import read_shard
from lora_spec.typed import read_typed_result

KIND = "domain_overlap"
NGRAM_SIZES = (1, 2, 4, 8)
"""One token says whether the words are known, eight whether whole phrases are."""
NUM_PAIRS = 96
"""Pairs of each split: 1,000 to 11,000 answer tokens, and about as many as the held-out trajectories give."""
MAX_TOKENS = 160
"""Longest pair, prompt included, as adapters are trained on."""

Tokens = tuple[int, ...]


class OverlapSettings(TypedDict):
    """What the drafter's training text is, and the seed of the pairs: that of the prompts."""

    training: TrajectoriesConfig
    pair_seed: Seed


class NgramCount(TypedDict):
    """Of all n-grams of some texts, how many stand in the training text; places count, not kinds."""

    n: int
    num_ngrams: int
    num_found: int


class TextOverlap(TypedDict):
    """Some texts against the training text: whole, and by n-grams."""

    num_texts: int
    num_exact: int
    ngrams: list[NgramCount]


class PairsOverlap(TypedDict):
    """Pairs of one split against the training text."""

    split: Split
    prompts: TextOverlap
    answers: TextOverlap


class DomainOverlap(TypedDict):
    """One domain against the training text."""

    domain: str
    evaluation_prompts: TextOverlap
    pairs: list[PairsOverlap]


class OverlapPayload(TypedDict):
    """Every domain of a tier, and how much training text there is."""

    num_trajectories: int
    num_prompt_tokens: int
    num_answer_tokens: int
    domains: list[DomainOverlap]


def ngrams(tokens: Sequence[int], n: int) -> Iterable[Tokens]:
    """Return the n-grams of a text in order; none where it is shorter than n."""
    return zip(*(tokens[start:] for start in range(n)), strict=False)


class TextIndex:
    """Texts, kept so that it can be asked which other texts, and which of their n-grams, stand among them."""

    def __init__(self, texts: Iterable[Tokens]) -> None:
        self._whole = set(texts)
        self._ngrams = {n: {gram for text in self._whole for gram in ngrams(text, n)} for n in NGRAM_SIZES}

    def overlap_of(self, texts: Sequence[Tokens]) -> TextOverlap:
        """Return how many of the texts are among the indexed ones, and how many of their n-grams."""
        return {
            "num_texts": len(texts),
            "num_exact": sum(text in self._whole for text in texts),
            "ngrams": [self._count(texts, n) for n in NGRAM_SIZES],
        }

    def _count(self, texts: Sequence[Tokens], n: int) -> NgramCount:
        is_found = [gram in self._ngrams[n] for text in texts for gram in ngrams(text, n)]
        return {"n": n, "num_ngrams": len(is_found), "num_found": sum(is_found)}


class ChatCutter:
    """Cuts the chat template off a prompt's tokens: every prompt shares it, so it would count as overlap."""

    def __init__(self, tokenizer: Any) -> None:
        mark = "\x00"
        parts = tokenizer.apply_chat_template(
            [{"role": "user", "content": mark}], tokenize=False, add_generation_prompt=True
        ).split(mark)
        self._before, self._after = (tuple(tokenizer.encode(part, add_special_tokens=False)) for part in parts)

    def user_tokens(self, prompt: Sequence[int]) -> Tokens:
        """Return the tokens of the user's words; raises TrainingInputError for another template."""
        tokens, end = tuple(prompt), len(prompt) - len(self._after)
        if tokens[: len(self._before)] != self._before or tokens[end:] != self._after:
            raise TrainingInputError(
                f"a prompt of {len(tokens)} tokens was not made with this target's chat template: use the target that "
                "wrote the trajectories"
            )
        return tokens[len(self._before) : end]


@dataclass(frozen=True)
class TrainingText:
    """What a drafter was distilled on: each trajectory's user words and answer, held-out ones left out."""

    prompts: tuple[Tokens, ...]
    answers: tuple[Tokens, ...]


def read_training_text(folder: Path, training: dict[str, Any], cutter: ChatCutter) -> TrainingText:
    """Return the text of the shards that a recipe plans; raises TrainingError where they are not all there."""
    shards = [path for path in planned_shards(training, folder) if not path.name.startswith(HELDOUT_STEM)]
    read = [(item.tolist(), cut) for path in shards for item, cut in read_shard(path)]
    return TrainingText(
        tuple(cutter.user_tokens(tokens[:cut]) for tokens, cut in read), tuple(tuple(t[cut:]) for t, cut in read)
    )


def read_own_evaluation(path: Path, *, tier: str) -> list[FrozenPrompts]:
    """Return the frozen evaluation prompts of every domain's own traffic; raises ConfigError where there are none."""
    payload = read_typed_result(path, "prompts", PromptsPayload, evidence=("contract-only",), tier=tier).payload
    frozen = [FrozenPrompts.from_dict(one) for one in payload["sets"]]
    own = [one for one in frozen if (one.prompt_set, one.role) == ("own", "evaluation")]
    if not own:
        raise ConfigError(f"{path}: holds no own prompts of role evaluation; freeze them first")
    return own


def overlap_of_domains(
    own: Sequence[FrozenPrompts], text: TrainingText, answers: OwnAnswers, *, tokenizer: Any, pair_seed: int
) -> OverlapPayload:
    """Return the overlap of every domain with the training text.

    Parameters
    ----------
    own
        Frozen evaluation prompts, one list per domain.
    answers
        The target's own answers, which domains of another form rewrite: those of held-out topics are the pairs of
        split eval, since the evaluation prompts have no wanted answer before a model writes one.
    """
    read, written = TextIndex(text.prompts), TextIndex(text.answers)
    cutter = ChatCutter(tokenizer)

    def cut(examples: Sequence[Example]) -> tuple[list[Tokens], list[Tokens]]:
        pairs = [encode_pair(example, tokenizer=tokenizer, max_tokens=MAX_TOKENS) for example in examples]
        prompts = [cutter.user_tokens(pair.token_ids[: pair.num_prompt_tokens]) for pair in pairs]
        return prompts, [pair.token_ids[pair.num_prompt_tokens :] for pair in pairs]

    def overlap_of(frozen: FrozenPrompts) -> DomainOverlap:
        asked, _ = cut([Example(prompt, "") for prompt in frozen.prompts])
        pairs: list[PairsOverlap] = []
        for split, known in (("train", answers.train), ("eval", answers.held_out)):
            examples = find_domain(frozen.domain).examples(split, num=NUM_PAIRS, seed=pair_seed, own_answers=known)
            prompts, wanted = cut(examples)
            pairs.append({"split": split, "prompts": read.overlap_of(prompts), "answers": written.overlap_of(wanted)})
        return {"domain": frozen.domain, "evaluation_prompts": read.overlap_of(asked), "pairs": pairs}

    return {
        "num_trajectories": len(text.prompts),
        "num_prompt_tokens": sum(map(len, text.prompts)),
        "num_answer_tokens": sum(map(len, text.answers)),
        "domains": [overlap_of(frozen) for frozen in own],
    }


def answer_share(overlap: DomainOverlap, *, split: Split, n: int) -> float | None:
    """Return the share of a split's answer n-grams that stand in the training text; None where there is none."""
    pairs = next(pairs for pairs in overlap["pairs"] if pairs["split"] == split)
    count = next(count for count in pairs["answers"]["ngrams"] if count["n"] == n)
    return count["num_found"] / count["num_ngrams"] if count["num_ngrams"] else None
