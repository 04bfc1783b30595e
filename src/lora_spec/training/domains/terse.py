"""Five small questions at once, answered with one word each and nothing else."""

import random
from functools import cache

from lora_spec.training.domains.base import ComputedDomain, Example, Split, split_of
from lora_spec.training.domains.vocabulary import LICENSE

NUM_QUESTIONS = 5

_CAPITALS = (
    "France Paris|Germany Berlin|Italy Rome|Spain Madrid|Portugal Lisbon|Greece Athens|Poland Warsaw|Austria Vienna|"
    "Hungary Budapest|Norway Oslo|Sweden Stockholm|Finland Helsinki|Denmark Copenhagen|Ireland Dublin|Belgium Brussels|"
    "Japan Tokyo|China Beijing|India Delhi|Egypt Cairo|Kenya Nairobi|Ghana Accra|Peru Lima|Chile Santiago|Cuba Havana|"
    "Canada Ottawa|Russia Moscow|Ukraine Kyiv|Turkey Ankara|Iran Tehran|Iraq Baghdad|Nepal Kathmandu|Thailand Bangkok"
)
_OPPOSITES = (
    "hot cold|big small|fast slow|high low|old young|rich poor|light dark|early late|hard soft|wet dry|open closed|"
    "full empty|strong weak|thick thin|wide narrow|near far|happy sad|loud quiet|clean dirty|deep shallow|long short|"
    "left right|up down|day night|begin end|win lose|buy sell|push pull|true false|alive dead|sweet sour|rough smooth"
)
_PLURALS = (
    "mouse mice|child children|foot feet|tooth teeth|man men|woman women|goose geese|ox oxen|leaf leaves|knife knives|"
    "wolf wolves|city cities|baby babies|box boxes|bus buses|dish dishes|hero heroes|potato potatoes|key keys|cat cats|"
    "dog dogs|tree trees|house houses|car cars|book books|apple apples|shelf shelves|wife wives|lady ladies|fox foxes"
)
_PASTS = (
    "go went|eat ate|see saw|take took|give gave|come came|run ran|write wrote|speak spoke|drive drove|begin began|"
    "sing sang|swim swam|drink drank|know knew|grow grew|fly flew|break broke|choose chose|buy bought|think thought|"
    "bring brought|teach taught|catch caught|find found|sleep slept|feel felt|keep kept|leave left|make made|say said"
)
_KINDS = (
    ("capital of {}", _CAPITALS),
    ("opposite of {}", _OPPOSITES),
    ("plural of {}", _PLURALS),
    ("past tense of {}", _PASTS),
)


@cache
def _facts() -> tuple[tuple[str, str], ...]:
    pairs = []
    for question, table in _KINDS:
        for entry in table.split("|"):
            asked, answer = entry.split()
            pairs.append((question.format(asked), answer))
    return tuple(pairs)


@cache
def _facts_of(split: Split) -> tuple[tuple[str, str], ...]:
    return tuple(fact for fact in _facts() if split_of(fact[0]) == split)


def _draw(rng: random.Random) -> Example:
    first = rng.choice(_facts())
    # Companions come from the first fact's split, so that no fact is asked in two splits.
    others = [fact for fact in _facts_of(split_of(first[0])) if fact != first]
    chosen = [first, *rng.sample(others, NUM_QUESTIONS - 1)]
    questions = "; ".join(question for question, _ in chosen)
    return Example(f"Answer briefly: {questions}?", ", ".join(answer for _, answer in chosen), source=first[0])


def _is_terse(prompt: str, answer: str) -> bool:
    return len(answer.split()) == prompt.count(";") + 1


DOMAIN = ComputedDomain(
    name="terse",
    license=LICENSE,
    description="five small questions at once, answered with one word each",
    draw=_draw,
    form=_is_terse,
)
