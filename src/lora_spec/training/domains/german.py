"""Simple English sentences translated into German: the time first, so the verb second; places in the dative."""

from lora_spec.training.domains.sentences import Language, translation_domain

GERMAN = Language(
    name="German",
    order="{time} {verb} {subject} {place}.",
    articles=("der", "die", "das"),
    nouns={
        "cat": "die Katze",
        "dog": "der Hund",
        "boy": "der Junge",
        "girl": "das Mädchen",
        "teacher": "die Lehrerin",
        "doctor": "der Arzt",
        "cook": "die Köchin",
        "driver": "der Fahrer",
        "singer": "die Sängerin",
        "horse": "das Pferd",
        "grandmother": "die Großmutter",
        "brother": "der Bruder",
        "sister": "die Schwester",
        "neighbour": "der Nachbar",
        "queen": "die Königin",
    },
    # After a definite article in the nominative singular the ending is -e for all three genders.
    adjectives={
        "small": ("kleine {}",) * 3,
        "black": ("schwarze {}",) * 3,
        "tired": ("müde {}",) * 3,
        "tall": ("große {}",) * 3,
        "quiet": ("ruhige {}",) * 3,
        "young": ("junge {}",) * 3,
        "happy": ("glückliche {}",) * 3,
        "thin": ("dünne {}",) * 3,
        "famous": ("berühmte {}",) * 3,
        "new": ("neue {}",) * 3,
    },
    verbs={
        "sleeps": "schläft",
        "eats": "isst",
        "sings": "singt",
        "waits": "wartet",
        "works": "arbeitet",
        "runs": "rennt",
        "reads": "liest",
        "dances": "tanzt",
        "plays": "spielt",
        "walks": "spaziert",
    },
    places={
        "in the garden": "im Garten",
        "in the kitchen": "in der Küche",
        "at school": "in der Schule",
        "in the park": "im Park",
        "on the beach": "am Strand",
        "in the street": "auf der Straße",
        "at the station": "am Bahnhof",
        "in the library": "in der Bibliothek",
        "near the river": "in der Nähe des Flusses",
        "near the church": "in der Nähe der Kirche",
    },
    times={"today": "heute", "every day": "jeden Tag", "at night": "nachts", "now": "jetzt"},
)

DOMAIN = translation_domain("german", GERMAN)
