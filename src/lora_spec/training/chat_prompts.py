"""Chat prompts for the base target: templates crossed with topics, made here and free to use.

They are the text on which the drafter is distilled and the common prompts on which all adapters are
compared. A topic belongs to exactly one split, so a held-out prompt shares its template with training
prompts but never its topic.
"""

import hashlib
import itertools
import random
from collections.abc import Sequence

from lora_spec.errors import TrainingError

LICENSE = "CC0-1.0"

TOPICS: tuple[str, ...] = tuple(
    """
photosynthesis|gravity|the water cycle|black holes|vaccines|earthquakes|volcanoes|the immune system|DNA|evolution|climate change
plate tectonics|the solar system|electric motors|magnets|batteries|nuclear energy|solar panels|wind turbines|the human heart|the brain
sleep|dreams|memory|stress|exercise|nutrition|vitamins|protein|sugar|coffee|tea|chocolate|bread|cheese|rice|pasta|olive oil|honey
the Roman Empire|ancient Egypt|the Silk Road|the French Revolution|the Industrial Revolution|the Renaissance|the Cold War
the printing press|the steam engine|the telephone|the internet|computers|smartphones|satellites|robots|machine learning|encryption
databases|operating systems|compilers|web browsers|email|social media|video games|open source software|cloud computing|backups
passwords|algorithms|sorting|recursion|binary search|linked lists|hash tables|graphs|probability|statistics|fractions|prime numbers
geometry|algebra|calculus|the Pythagorean theorem|money|inflation|taxes|banks|insurance|stock markets|budgets|interest rates|trade
supply and demand|small businesses|marketing|negotiation|teamwork|leadership|time management|public speaking|job interviews
remote work|meetings|feedback|motivation|habits|creativity|curiosity|patience|kindness|honesty|courage|friendship|family|loneliness
happiness|grief|forgiveness|trust|respect|music|jazz|the piano|the guitar|opera|painting|sculpture|photography|cinema|theatre|dance
poetry|novels|fairy tales|mythology|journalism|libraries|museums|schools|universities|homework|exams|languages|grammar|translation
handwriting|dictionaries|maps|compasses|oceans|rivers|lakes|deserts|forests|mountains|islands|coral reefs|rain|snow|storms|clouds
rainbows|the moon|the stars|sunlight|seasons|spring|autumn|winter|summer|gardens|trees|flowers|mushrooms|bees|butterflies|spiders
ants|birds|owls|penguins|dolphins|whales|sharks|elephants|lions|wolves|bears|horses|cows|dogs|cats|rabbits|turtles|frogs|dinosaurs
bicycles|cars|trains|ships|airplanes|helicopters|bridges|tunnels|roads|traffic|public transport|cities|villages|houses|furniture
kitchens|cooking|baking|soup|salad|breakfast|picnics|restaurants|markets|recycling|plastic|paper|glass|steel|gold|diamonds|salt
water|fire|air|soil|farming|fishing|hunting|camping|hiking|swimming|running|yoga|football|tennis|chess|board games|puzzles|toys
birthdays|weddings|holidays|travel|hotels|passports|souvenirs|clothes|shoes|hats|umbrellas|clocks|calendars|mirrors|candles|soap
dentists|doctors|nurses|hospitals|firefighters|police|judges|elections|democracy|laws|human rights|freedom|privacy|news|advertising
""".replace("\n", "|")
    .strip("|")
    .split("|")
)

TEMPLATES: tuple[str, ...] = tuple(
    """
What is the most important thing to know about {a}?
Explain {a} to a ten-year-old child.
Explain {a} in two short paragraphs.
Write a short story about {a}.
Write a poem about {a}.
List five facts about {a}.
List three common mistakes people make with {a}.
Give me some tips about {a}.
Why does {a} matter in everyday life?
How has {a} changed over the last hundred years?
What would the world be like without {a}?
Compare {a} and {b}.
What do {a} and {b} have in common?
Describe the history of {a}.
Describe {a} in one sentence, then in detail.
Write an email to a friend about {a}.
Write an introduction for an essay about {a}.
Write a dialogue between a teacher and a student about {a}.
What are the advantages and disadvantages of {a}?
Can you summarise what scientists say about {a}?
Make a lesson plan about {a} for beginners.
What questions should I ask an expert on {a}?
I am worried about {a}. What should I do?
Tell me something surprising about {a}.
Write a product description connected with {a}.
How would you teach {a} to someone who knows only {b}?
Give a definition of {a} and an example.
Write a quiz with three questions about {a}.
Suggest a title and an outline for a book about {a}.
Write a short speech about {a} for a school event.
""".strip().splitlines()
)

CODE_TASKS: tuple[str, ...] = tuple(
    """
reverses a string|checks whether a number is prime|computes the factorial of a number|counts the vowels in a text|merges two sorted lists
removes duplicates from a list|finds the largest value in a list|computes the average of a list|reads a text file line by line
converts Celsius to Fahrenheit|checks whether a word is a palindrome|computes the Fibonacci sequence|sorts a list of dictionaries by a key
counts how often each word occurs|flattens a nested list|finds the common elements of two lists|computes the greatest common divisor
generates a random password|validates an email address|parses a date from a string|writes a list to a CSV file|rotates a list by n places
transposes a matrix|implements binary search|implements a stack|implements a queue|computes the sum of the digits of a number
converts a number to binary|capitalises each word of a sentence|measures how long another function takes
""".replace("\n", "|")
    .strip("|")
    .split("|")
)


def is_held_out(topic: str) -> bool:
    """Say whether a topic (or a code task) belongs to the held-out eighth, by a hash of its text."""
    return hashlib.sha256(topic.encode()).digest()[0] < 32


def _prompt(rng: random.Random, topics: Sequence[str], tasks: Sequence[str]) -> str:
    if rng.random() < 0.1:
        return f"Write a Python function that {rng.choice(tasks)}."
    first, second = rng.sample(topics, 2)
    return rng.choice(TEMPLATES).format(a=first, b=second)


def chat_prompts(num_prompts: int, *, seed: int, held_out: bool) -> list[str]:
    """Return distinct chat prompts of one split, the same for the same seed.

    Parameters
    ----------
    num_prompts
        How many to make; about 13,000 two-topic and one-topic prompts exist per split before they repeat.
    held_out
        Take the topics that no training prompt mentions, instead of the training topics.

    Raises
    ------
    TrainingError
        There are not that many.
    """
    topics = [topic for topic in TOPICS if is_held_out(topic) == held_out]
    tasks = [task for task in CODE_TASKS if is_held_out(task) == held_out]
    rng = random.Random(f"chat-{seed}-{held_out}")
    stream = (_prompt(rng, topics, tasks) for _ in itertools.count())
    seen: dict[str, None] = {}
    # The last of n prompts takes n draws or so to come up: a hundred times that says that there is none left.
    for prompt in itertools.islice(stream, 100 * (num_prompts + 100)):
        if len(seen) == num_prompts:
            return list(seen)
        seen.setdefault(prompt, None)
    raise TrainingError(f"only {len(seen)} distinct chat prompts were found, not {num_prompts}; ask for fewer")
