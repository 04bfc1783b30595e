"""A sentence about a trip, a bill or a loan, answered with its facts as one small XML document."""

import random
from xml.etree import ElementTree

from lora_spec.training.domains.base import ComputedDomain, Example
from lora_spec.training.domains.vocabulary import (
    CITIES,
    COLORS,
    FIRST_NAMES,
    GOODS,
    JOBS,
    LAST_NAMES,
    LICENSE,
    MONTHS,
)


def _trip(rng: random.Random) -> tuple[str, dict[str, str]]:
    name, (start, end) = rng.choice(FIRST_NAMES), rng.sample(CITIES, 2)
    day = f"{rng.choice(MONTHS)} {rng.randint(1, 28)}"
    text = rng.choice(
        (
            f"{name} travels from {start} to {end} on {day}.",
            f"On {day} {name} leaves {start} for {end}.",
            f"The train that takes {name} to {end} leaves {start} on {day}.",
        )
    )
    return text, {"name": name, "from": start, "to": end, "day": day}


def _bill(rng: random.Random) -> tuple[str, dict[str, str]]:
    buyer = f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"
    count, item, price = str(rng.randint(2, 60)), rng.choice(GOODS), str(rng.randint(61, 999))
    text = rng.choice(
        (
            f"{buyer} paid {price} euros for {count} {item}.",
            f"We sold {count} {item} to {buyer} for {price} euros.",
            f"The bill of {buyer}: {count} {item}, {price} euros.",
        )
    )
    return text, {"buyer": buyer, "item": item, "count": count, "euros": price}


def _loan(rng: random.Random) -> tuple[str, dict[str, str]]:
    lender, borrower = rng.sample(FIRST_NAMES, 2)
    job, item, month = rng.choice(JOBS), f"{rng.choice(COLORS)} {rng.choice(GOODS)}", rng.choice(MONTHS)
    text = rng.choice(
        (
            f"{lender} lent the {item} to the {job} {borrower} until {month}.",
            f"Until {month} the {job} {borrower} keeps the {item} of {lender}.",
            f"The {job} {borrower} borrowed the {item} from {lender} until {month}.",
        )
    )
    return text, {"from": lender, "to": borrower, "item": item, "until": month}


def _to_xml(kind: str, facts: dict[str, str]) -> str:
    root = ElementTree.Element(kind)
    for tag, value in facts.items():
        ElementTree.SubElement(root, tag).text = value
    return ElementTree.tostring(root, encoding="unicode")


def _draw(rng: random.Random) -> Example:
    kind, make = rng.choice((("trip", _trip), ("bill", _bill), ("loan", _loan)))
    text, facts = make(rng)
    question = rng.choice(("Mark up the facts:", "Record this:", "Write this as data:", "For the archive:"))
    return Example(f"{question} {text}", _to_xml(kind, facts), source=text)


def _is_xml(prompt: str, answer: str) -> bool:
    del prompt
    try:
        return len(ElementTree.fromstring(answer)) > 0
    except ElementTree.ParseError:
        return False


DOMAIN = ComputedDomain(
    name="xml_extract",
    license=LICENSE,
    description="the facts of a sentence about a trip, a bill or a loan as one small XML document",
    draw=_draw,
    form=_is_xml,
)
