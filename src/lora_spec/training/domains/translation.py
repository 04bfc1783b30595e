"""Simple English sentences translated into Spanish by a small grammar with gender agreement."""

import random

from lora_spec.training.domains.base import ComputedDomain, Example
from lora_spec.training.domains.vocabulary import LICENSE

# English, Spanish with its article
_NOUNS = (
    ("cat", "el gato"),
    ("dog", "el perro"),
    ("boy", "el niño"),
    ("girl", "la niña"),
    ("teacher", "la profesora"),
    ("doctor", "el médico"),
    ("cook", "la cocinera"),
    ("driver", "el conductor"),
    ("singer", "la cantante"),
    ("horse", "el caballo"),
    ("grandmother", "la abuela"),
    ("brother", "el hermano"),
    ("sister", "la hermana"),
    ("neighbour", "el vecino"),
    ("queen", "la reina"),
)
# English, masculine, feminine
_ADJECTIVES = (
    ("small", "pequeño", "pequeña"),
    ("black", "negro", "negra"),
    ("tired", "cansado", "cansada"),
    ("tall", "alto", "alta"),
    ("quiet", "tranquilo", "tranquila"),
    ("young", "joven", "joven"),
    ("happy", "feliz", "feliz"),
    ("thin", "delgado", "delgada"),
    ("famous", "famoso", "famosa"),
    ("new", "nuevo", "nueva"),
)
_VERBS = (
    ("sleeps", "duerme"),
    ("eats", "come"),
    ("sings", "canta"),
    ("waits", "espera"),
    ("works", "trabaja"),
    ("runs", "corre"),
    ("reads", "lee"),
    ("dances", "baila"),
    ("plays", "juega"),
    ("walks", "camina"),
)
_PLACES = (
    ("in the garden", "en el jardín"),
    ("in the kitchen", "en la cocina"),
    ("at school", "en la escuela"),
    ("in the park", "en el parque"),
    ("on the beach", "en la playa"),
    ("in the street", "en la calle"),
    ("at the station", "en la estación"),
    ("in the library", "en la biblioteca"),
    ("near the river", "cerca del río"),
    ("near the church", "cerca de la iglesia"),
)
_TIMES = (("today", "hoy"), ("every day", "todos los días"), ("at night", "por la noche"), ("now", "ahora"))


def _sentence(rng: random.Random) -> tuple[str, str]:
    (noun, spanish_noun), (adjective, masculine, feminine) = rng.choice(_NOUNS), rng.choice(_ADJECTIVES)
    (verb, spanish_verb), (place, spanish_place) = rng.choice(_VERBS), rng.choice(_PLACES)
    time, spanish_time = rng.choice(_TIMES)
    agreeing = feminine if spanish_noun.startswith("la ") else masculine
    spanish = f"{spanish_noun} {agreeing} {spanish_verb} {spanish_place} {spanish_time}."
    return f"The {adjective} {noun} {verb} {place} {time}.", spanish[0].upper() + spanish[1:]


def _draw(rng: random.Random) -> Example:
    english, spanish = zip(_sentence(rng), _sentence(rng), strict=True)
    return Example(f"In Spanish: {' '.join(english)}", " ".join(spanish))


def _starts_with_article(prompt: str, answer: str) -> bool:
    del prompt
    return answer.startswith(("El ", "La "))


DOMAIN = ComputedDomain(
    name="translation",
    license=LICENSE,
    description="simple English sentences translated into Spanish",
    draw=_draw,
    form=_starts_with_article,
)
