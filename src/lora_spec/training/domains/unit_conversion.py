"""Whole amounts converted to a smaller unit, with the factor stated first."""

import random

from lora_spec.training.domains.base import ComputedDomain, Example
from lora_spec.training.domains.vocabulary import LICENSE

# (larger unit, smaller unit, how many smaller units make one larger unit)
_FACTORS = (
    ("kilometres", "metres", 1000),
    ("metres", "centimetres", 100),
    ("centimetres", "millimetres", 10),
    ("kilograms", "grams", 1000),
    ("tonnes", "kilograms", 1000),
    ("grams", "milligrams", 1000),
    ("litres", "millilitres", 1000),
    ("hectares", "square metres", 10000),
    ("days", "hours", 24),
    ("hours", "minutes", 60),
    ("minutes", "seconds", 60),
    ("weeks", "days", 7),
    ("years", "months", 12),
    ("feet", "inches", 12),
    ("yards", "feet", 3),
    ("pounds", "ounces", 16),
    ("gallons", "pints", 8),
    ("dozens", "pieces", 12),
    ("kilobytes", "bytes", 1024),
    ("euros", "cents", 100),
)


def _draw(rng: random.Random) -> Example:
    large, small, factor = rng.choice(_FACTORS)
    amount = rng.randint(2, 60)
    question = rng.choice(
        (
            "How many {small} are {amount} {large}?",
            "Convert {amount} {large} to {small}.",
            "{amount} {large} in {small}?",
        )
    )
    return Example(
        question.format(amount=amount, large=large, small=small),
        f"One of the {large} is {factor} {small}, so {amount} {large} are "
        f"{amount} × {factor} = {amount * factor} {small}.",  # noqa: RUF001
        source=f"{amount} {large}",
    )


def _states_factor(prompt: str, answer: str) -> bool:
    del prompt
    return answer.startswith("One of the ") and " so " in answer


DOMAIN = ComputedDomain(
    name="unit_conversion",
    license=LICENSE,
    description="whole amounts converted to a smaller unit, with the factor stated",
    draw=_draw,
    form=_states_factor,
)
