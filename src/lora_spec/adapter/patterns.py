"""Patterns from a config: refuse those that hang servers, evaluate the rest without a backtracking engine."""

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lora_spec.adapter.effort import Effort, NotEvaluableError

if TYPE_CHECKING:
    from lora_spec.adapter.automaton import Automaton

MAX_PATTERN_CHARACTERS = 1000
_REPEATS = r"[*+]|\{(?:\d+(?:,\d*)?|,\d*)\}"
_MAX_COMPARISONS = 1_000_000  # of a table: each end of a name, and each with a group of plain keys
_PLAIN = r"[A-Za-z0-9_.\-]+"
_COMMENT_OR_VERBOSE = r"\(\?(?:#|[a-zA-Z-]*x)"
_INLINE_FLAGS = r"\(\?[a-zA-Z-]+[:)]"


def is_unsafe(pattern: str) -> bool:
    """Tell whether a backtracking engine might never finish with a pattern.

    Unsafe is one of more than 1000 characters, or with a repeated group that holds a repetition or an alternative.
    Comments and the verbose mode let a repetition stand apart from its group: with them any repetition is unsafe.
    Read from the text itself: parsers simplify ``(a|b)+`` to a class and would hide it.
    """
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        return True
    holds_more, at = [False], 0  # per open group: does it hold a repetition or an alternative?
    while at < len(pattern):
        mark = pattern[at]
        if mark == "\\":
            at += 2
        elif mark == "[":
            at = _end_of_class(pattern, at)
        elif mark == "(":
            if re.compile(_COMMENT_OR_VERBOSE).match(pattern, at):
                return any(mark in pattern for mark in "*+{")
            holds_more.append(False)
            at += 2 if pattern[at + 1 : at + 2] == "?" else 1
            continue
        elif mark == ")":
            inner = holds_more.pop() if len(holds_more) > 1 else False
            at += 1
            if inner and _repeat_at(pattern, at):
                return True
            holds_more[-1] |= inner
            continue
        elif mark == "|":
            holds_more[-1] = True
            at += 1
        else:
            at += 1
            if not _repeat_at(pattern, at - 1):
                continue
            holds_more[-1] = True
            at = _repeat_at(pattern, at - 1).end()
            at += pattern[at : at + 1] in ("?", "+")
            continue
    return False


def _repeat_at(pattern: str, at: int) -> re.Match[str] | None:
    return re.compile(_REPEATS).match(pattern, at)


def _end_of_class(pattern: str, at: int) -> int:
    at += 1
    at += pattern[at : at + 1] == "^"
    at += pattern[at : at + 1] == "]"
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1


def is_regular_expression(pattern: str) -> bool:
    """Tell whether a safe pattern is well formed. Flags inside it are not tried: compiling them can be slow."""
    if re.search(_INLINE_FLAGS, pattern):
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError):
        return False
    except RecursionError:
        return True
    return True


class PatternTable:
    """``rank_pattern`` or ``alpha_pattern``: values by pattern, the first that applies wins.

    A key K applies to a module if ``(.*\\.)?(K)$`` matches its name from the start.
    """

    def __init__(self, values: Mapping[str, float]) -> None:
        self.values = values
        self.used: set[str] = set()
        self.not_evaluable: dict[str, str] = {}
        self._order = {key: place for place, key in enumerate(self.values)}
        self._plain = _PlainKeys(key for key in self.values if re.fullmatch(_PLAIN, key))
        self._automata: dict[str, Automaton] = {}
        self._effort = Effort()
        for key in self.values:
            if not re.fullmatch(_PLAIN, key):
                self._compile(key)

    def lookup(self, names: Iterable[str]) -> float | None:
        """Return the value for a module known by one or more names, None where no key applies."""
        if not (self._automata or self._plain.holds_any):
            return None
        matching: set[str] = set()
        for name in names:
            matching.update(self._matching_plain(name))
            matching.update(key for key in list(self._automata) if self._applies(key, name))
        self.used |= matching
        return self.values[min(matching, key=self._order.__getitem__)] if matching else None

    @property
    def unused(self) -> list[str]:
        """Return the keys that applied to no module looked up so far, leaving out those not evaluated."""
        return [key for key in self.values if key not in self.used and key not in self.not_evaluable]

    def _compile(self, key: str) -> None:
        from lora_spec.adapter.automaton import Automaton  # few adapters have patterns that need one

        try:
            self._automata[key] = Automaton(key, self._effort)
        except NotEvaluableError as err:
            self.not_evaluable[key] = str(err)

    def _matching_plain(self, name: str) -> list[str]:
        try:
            return self._plain.matching(name)
        except NotEvaluableError as err:
            key = next(key for key in self.values if key not in self._automata)
            self.not_evaluable.setdefault(key, str(err))
            self._plain = _PlainKeys(())  # told once, and no more looked at
            return []

    def _applies(self, key: str, name: str) -> bool:
        try:
            return self._automata[key].matches_from_any_word(name)
        except NotEvaluableError as err:
            del self._automata[key]
            self.not_evaluable[key] = str(err)
            return False


class _PlainKeys:
    """Keys without any operator but the dot, which stands for any character.

    Grouped by the places of their dots, so that a name is compared with all keys of a group in one look-up:
    full module names as keys (EVA writes thousands) cost no more than a few.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._groups: dict[int, dict[tuple[int, ...], dict[str, str]]] = {}
        self._comparisons_left = _MAX_COMPARISONS
        for key in keys:
            dots = tuple(place for place, character in enumerate(key) if character == ".")
            self._groups.setdefault(len(key), {}).setdefault(dots, {})[key] = key

    @property
    def holds_any(self) -> bool:
        return bool(self._groups)

    def matching(self, name: str) -> list[str]:
        if not self._groups:
            return []
        self._spend(1 + name.count("."))
        found = []
        starts = [0, *(place + 1 for place, character in enumerate(name) if character == ".")]
        for start in starts:
            groups = self._groups.get(len(name) - start)
            if groups is None:
                continue
            self._spend(len(groups))
            end = name[start:]
            for dots, keys in groups.items():
                masked = list(end)
                for place in dots:
                    masked[place] = "."
                key = keys.get("".join(masked))
                found += [key] if key is not None else []
        return found

    def _spend(self, comparisons: int) -> None:
        self._comparisons_left -= comparisons
        if self._comparisons_left < 0:
            raise NotEvaluableError("the names need too many comparisons")


def matches_whole_name(pattern: str, names: Iterable[str]) -> dict[str, bool] | None:
    """Return for each name whether the pattern describes all of it, or None where the pattern cannot be evaluated."""
    from lora_spec.adapter.automaton import Automaton

    try:
        automaton = Automaton(pattern)
        return {name: automaton.matches_whole(name) for name in names}
    except NotEvaluableError:
        return None


def is_plain(pattern: Any) -> bool:
    """Tell whether a pattern is a name without any operator but the dot, as EVA writes them by the thousand."""
    return isinstance(pattern, str) and bool(re.fullmatch(_PLAIN, pattern))


def check_pattern(pattern: Any) -> str | None:
    """Return the code of what is wrong with a pattern, or None."""
    if not isinstance(pattern, str):
        return "E_CONFIG_VALUE"
    if len(pattern) <= MAX_PATTERN_CHARACTERS and re.fullmatch(_PLAIN, pattern):
        return None  # a plain name, as EVA writes them by the thousand
    if is_unsafe(pattern):
        return "E_PATTERN_UNSAFE"
    return None if is_regular_expression(pattern) else "E_CONFIG_VALUE"
