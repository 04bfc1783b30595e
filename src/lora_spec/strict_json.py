"""JSON as the standard writes it: no repeated keys, no NaN, no comments, no bottomless nesting."""

import json
import math
import re
from typing import Any

MAX_DEPTH = 64
_MAX_DIGITS = 400
_MAX_INT = 2**63
# The closing quote is optional so that an unclosed string is passed in one go: no quadratic retries.
_TOKENS = r'"(?:[^"\\]|\\[\s\S])*+"?|[\[{]|[\]}]'


class StrictJsonError(ValueError):
    """Text is not strict JSON; the message says why."""


def parse_strict(data: bytes, max_values: int | None = None) -> Any:
    """Return the value that UTF-8 JSON text holds.

    With ``max_values``, text that may hold more values than that is refused before any is built; every comma and every
    opening bracket counts, also inside strings.

    Whole numbers of more than 400 digits become 10**400: beyond any use, cheap to keep.

    Raises
    ------
    StrictJsonError
        The text is not UTF-8, not JSON, nests too deep, repeats a key, holds NaN or Infinity, or too many values.
    """
    if max_values is not None and sum(map(data.count, (b",", b"[", b"{"))) > max_values:
        raise StrictJsonError(f"more than {max_values} values")
    return _parse(data, parse_int=_bounded_int, parse_float=float)


def parse_own(data: bytes) -> Any:
    """Return the value of JSON that this package wrote: all that :func:`parse_strict` refuses, and more.

    Raises
    ------
    StrictJsonError
        Also where a number fits neither 64 bits nor a double, or a text holds half a surrogate pair: such a value
        can be read but neither computed with nor written again.
    """
    value = _parse(data, parse_int=_int64, parse_float=_finite)
    if rb"\ud" in data.lower():
        _refuse_surrogates(value)
    return value


def _parse(data: bytes, **parse_numbers: Any) -> Any:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as err:
        raise StrictJsonError(f"not UTF-8 text at byte {err.start}") from err
    _refuse_deep(text)
    try:
        return json.loads(
            text, object_pairs_hook=refuse_repeated_keys, parse_constant=_refuse_constant, **parse_numbers
        )
    except json.JSONDecodeError as err:
        raise StrictJsonError(f"{err.msg} at line {err.lineno} column {err.colno}") from err
    except RecursionError as err:
        raise StrictJsonError("nested too deep") from err


def refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict, or raise StrictJsonError if a key stands twice."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    repeated = next(key for key, _ in pairs if key in seen or seen.add(key))
    raise StrictJsonError(f"key {repeated[:80]!a} stands twice in one object")


def _refuse_constant(word: str) -> None:
    raise StrictJsonError(f"{word} is not JSON")


def _bounded_int(digits: str) -> int:
    if len(digits) <= _MAX_DIGITS:
        return int(digits)
    return -(10**_MAX_DIGITS) if digits[0] == "-" else 10**_MAX_DIGITS


def _int64(digits: str) -> int:
    number = _bounded_int(digits)
    if not -_MAX_INT <= number < _MAX_INT:
        raise StrictJsonError(f"the whole number {digits[:20]}... does not fit 64 bits")
    return number


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise StrictJsonError(f"the number {digits[:40]} is too large")
    return number


def _refuse_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as err:
        raise StrictJsonError("a text holds half a surrogate pair, which is no character") from err


def _refuse_deep(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for token in re.finditer(_TOKENS, text):
        mark = text[token.start()]
        depth += (mark in "[{") - (mark in "]}")
        if depth > MAX_DEPTH:
            raise StrictJsonError(f"nested deeper than {MAX_DEPTH} levels")
