"""Make text from a file safe to show: a name in a file of others must not steer a terminal. Knows no room."""

import unicodedata

# Control, format (text direction, zero width), surrogate, private use, unassigned, line and paragraph separators.
_UNSAFE_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
MAX_SHOWN_CHARACTERS = 160


def has_unsafe_characters(text: str) -> bool:
    """Tell whether text holds control, text-direction, invisible or surrogate characters."""
    return not (text.isascii() and text.isprintable()) and any(
        unicodedata.category(character) in _UNSAFE_CATEGORIES for character in text
    )


def _escape(character: str) -> str:
    if unicodedata.category(character) not in _UNSAFE_CATEGORIES:
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def printable(value: object, limit: int = MAX_SHOWN_CHARACTERS) -> str:
    """Return text with every unsafe character escaped, its middle left out if it is longer than ``limit``."""
    text = str(value)
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}...{text[-half:]}"
    return "".join(map(_escape, text)) if has_unsafe_characters(text) else text
