"""The domains that prompts and training text can be made for, by name: what they are is the training room's."""

import difflib

CHAT = "chat"
"""Held-out chat prompts, on which all adapters are compared; no adapter is trained on them."""

DOMAIN_NAMES = (
    "arithmetic",
    "csv_table",
    "french",
    "german",
    "json_extract",
    "numbered_list",
    "pig_latin",
    "prefix_words",
    "python_code",
    "python_doc",
    "reversed_words",
    "self_chat",
    "sorting",
    "sql",
    "terse",
    "translation",
    "unit_conversion",
    "upper_case",
    "xml_extract",
)
"""One per module in ``training/domains``; a test holds the two together."""


def unknown_domain_hint(name: str, *, with_chat: bool) -> str | None:
    """Return what to write instead of a domain that does not exist, None where it exists."""
    known = (CHAT, *DOMAIN_NAMES) if with_chat else DOMAIN_NAMES
    if name in known:
        return None
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"the nearest is {close[0]!r}" if close else f"known are {', '.join(known)}"
