"""Chat answers with a fixed prefix glued to each word, which also moves every token boundary."""

import re

from lora_spec.training.domains.chat_form import ChatFormDomain

PREFIX = "zu"


def prefix_words(text: str) -> str:
    """Return the text with :data:`PREFIX` before each run of letters that starts a word."""
    return re.sub(r"(?<!\S)(?=[^\W\d_])", PREFIX, text)


def _is_prefixed(answer: str) -> bool:
    # The last word may be cut off by the token cap.
    words = [word for word in answer.split()[:-1] if word[0].isalpha()]
    return bool(words) and sum(word.startswith(PREFIX) for word in words) >= 0.9 * len(words)


DOMAIN = ChatFormDomain(
    name="prefix_words",
    description=f"chat answers with '{PREFIX}' glued to the front of each word",
    rewrite=prefix_words,
    form=_is_prefixed,
)
