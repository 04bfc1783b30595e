"""Chat answers as a numbered list with one sentence per line."""

import re

from lora_spec.training.domains.chat_form import ChatFormDomain


def number_sentences(text: str) -> str:
    """Return one numbered line per sentence or line of the text, old list marks removed."""
    pieces = re.split(r"(?<=[.!?])\s+|\n+", text)
    bare = [re.sub(r"^(?:\d+[.)]|[-*])\s*", "", piece.strip()) for piece in pieces]
    kept = [piece for piece in bare if re.search(r"\w", piece)]
    return "\n".join(f"{index}. {piece}" for index, piece in enumerate(kept, start=1))


def _is_numbered(answer: str) -> bool:
    lines = answer.strip().split("\n")
    return all(line.startswith(f"{index}. ") for index, line in enumerate(lines[:-1] or lines, start=1))


DOMAIN = ChatFormDomain(
    name="numbered_list",
    description="chat answers as a numbered list, one sentence per line",
    rewrite=number_sentences,
    form=_is_numbered,
)
