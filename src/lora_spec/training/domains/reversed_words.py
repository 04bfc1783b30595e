"""Chat answers with the letters of each word reversed."""

import re

from lora_spec.training.domains.chat_form import ChatFormDomain


def reverse_words(text: str) -> str:
    """Return the text with each run of letters reversed; its own inverse."""
    return re.sub(r"[^\W\d_]+", lambda word: word[0][::-1], text)


def _starts_lower(answer: str) -> bool:
    # Reversing moves a capital from the front of a word to its end.
    words = re.findall(r"[^\W\d_]{2,}", answer)
    capitals_last = sum(word[-1].isupper() and word[0].islower() for word in words)
    return capitals_last > sum(word[0].isupper() and word[-1].islower() for word in words)


DOMAIN = ChatFormDomain(
    name="reversed_words",
    description="chat answers with the letters of each word reversed",
    rewrite=reverse_words,
    form=_starts_lower,
)
