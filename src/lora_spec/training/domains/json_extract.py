"""A sentence about a person, an order or an event, answered with its fields as one JSON object."""

import json
import random
from typing import Any

from lora_spec.training.domains.base import ComputedDomain, Example
from lora_spec.training.domains.vocabulary import (
    CITIES,
    COLORS,
    EVENTS,
    FIRST_NAMES,
    GOODS,
    JOBS,
    LAST_NAMES,
    LICENSE,
    MONTHS,
)


def _person(rng: random.Random) -> tuple[str, dict[str, Any]]:
    name = f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"
    age, job, city = rng.randint(18, 80), rng.choice(JOBS), rng.choice(CITIES)
    text = rng.choice(
        (
            f"{name} is {age} years old, works as a {job} and lives in {city}.",
            f"Meet {name}, a {age}-year-old {job} from {city}.",
            f"In {city} I met a {job} called {name}, who is {age}.",
        )
    )
    return text, {"type": "person", "name": name, "age": age, "job": job, "city": city}


def _order(rng: random.Random) -> tuple[str, dict[str, Any]]:
    name, city = rng.choice(FIRST_NAMES), rng.choice(CITIES)
    quantity, color, item = rng.randint(2, 99), rng.choice(COLORS), rng.choice(GOODS)
    text = rng.choice(
        (
            f"{name} ordered {quantity} {color} {item} to be sent to {city}.",
            f"Please send {quantity} {color} {item} to {name} in {city}.",
            f"An order from {city}: {name} wants {quantity} {item} in {color}.",
        )
    )
    fields = {"customer": name, "quantity": quantity, "item": item, "color": color, "city": city}
    return text, {"type": "order", **fields}


def _event(rng: random.Random) -> tuple[str, dict[str, Any]]:
    event, city, month, day = rng.choice(EVENTS), rng.choice(CITIES), rng.choice(MONTHS), rng.randint(1, 28)
    hour = rng.randint(8, 21)
    text = rng.choice(
        (
            f"The {event} in {city} is on {month} {day} at {hour}:00.",
            f"Do not forget: {event} on {month} {day}, {hour}:00, {city}.",
            f"We meet at {hour}:00 in {city} for the {event} on {month} {day}.",
        )
    )
    return text, {"type": "event", "event": event, "city": city, "month": month, "day": day, "hour": hour}


def _draw(rng: random.Random) -> Example:
    text, fields = rng.choice((_person, _order, _event))(rng)
    question = rng.choice(("Extract the facts:", "What does this say?", "Read this note:", "Note for the file:"))
    return Example(f"{question} {text}", json.dumps(fields), source=text)


def _is_json_object(prompt: str, answer: str) -> bool:
    del prompt
    try:
        return isinstance(json.loads(answer), dict)
    except ValueError:
        return False


DOMAIN = ComputedDomain(
    name="json_extract",
    license=LICENSE,
    description="the fields of a sentence about a person, an order or an event as one JSON object",
    draw=_draw,
    form=_is_json_object,
)
