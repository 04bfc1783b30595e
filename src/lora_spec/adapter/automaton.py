"""Match regular expressions in linear time: a lazily built automaton instead of a backtracking engine.

Knows the part of the syntax that adapter configs use (literals, classes, groups, alternatives, repetitions, anchors,
word boundaries). Everything else, and whatever would grow too large, raises :class:`NotEvaluableError`.

Reference: Thompson 1968, "Regular expression search algorithm".
"""

import re
import warnings
from dataclasses import dataclass, field

MAX_STATES = 4000
MAX_STEPS = 200_000
_COUNTED = r"\{(?:(\d+)(,?)(\d*)|,(\d*))\}"
_SPECIAL = frozenset("\\[](){}*+?|.^$")
_CLASS_ESCAPES = frozenset("dDwWsS")
_ANCHORS = {"^": "start", "$": "end", "\\A": "start", "\\Z": "end", "\\b": "boundary", "\\B": "inside"}
_GROUP_START = r"\((?:\?:|\?P<[A-Za-z_]\w*>|(?!\?))"


class NotEvaluableError(Exception):
    """The pattern may be sound, but this engine cannot or will not evaluate it."""


@dataclass
class _Node:
    """A state: either consumes one character, or moves on freely (if its anchor holds)."""

    accepts: re.Pattern[str] | str | None = None
    anchor: str | None = None
    targets: list[int] = field(default_factory=list)


class _Compiler:
    """Recursive descent over the pattern; emits states. A fragment is (first state, last state)."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.nodes: list[_Node] = []

    def new(self, **values: object) -> int:
        if len(self.nodes) >= MAX_STATES:
            raise NotEvaluableError("the pattern has too many states")
        self.nodes.append(_Node(**values))
        return len(self.nodes) - 1

    def join(self, first: int, second: int) -> None:
        self.nodes[first].targets.append(second)

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def alternatives(self) -> tuple[int, int]:
        start, end = self.new(), self.new()
        while True:
            first, last = self.sequence()
            self.join(start, first)
            self.join(last, end)
            if self.peek() != "|":
                return start, end
            self.at += 1

    def sequence(self) -> tuple[int, int]:
        first = last = self.new()
        while self.peek() not in ("", "|", ")"):
            begin, end = self.repeated()
            self.join(last, begin)
            last = end
        return first, last

    def repeated(self) -> tuple[int, int]:
        origin = self.at
        fragment = self.atom()
        bounds = self.bounds()
        if bounds is None:
            return fragment
        if self.peek() == "?":
            self.at += 1  # lazy: the same language
        elif self.peek() in ("+", "*") or self.bounds() is not None:
            raise NotEvaluableError("possessive or repeated repetition")
        end_of_pattern = self.at
        least, most = bounds
        return self.copies(origin, end_of_pattern, least, most)

    def copies(self, origin: int, resume: int, least: int, most: int | None) -> tuple[int, int]:
        first = last = self.new()
        if max(least, most or 0) > MAX_STATES:
            raise NotEvaluableError("too many repetitions")
        for _ in range(least):
            begin, end = self.again(origin)
            self.join(last, begin)
            last = end
        exit_state = self.new()
        self.join(last, exit_state)
        if most is None:
            begin, end = self.again(origin)
            loop = self.new(targets=[begin, exit_state])
            self.join(last, loop)
            self.join(end, loop)
        for _ in range(0 if most is None else most - least):
            begin, end = self.again(origin)
            self.join(last, begin)
            self.join(end, exit_state)
            last = end
        self.at = resume
        return first, exit_state

    def again(self, origin: int) -> tuple[int, int]:
        self.at = origin
        return self.atom()

    def bounds(self) -> tuple[int, int | None] | None:
        mark = self.peek()
        if mark in ("*", "+", "?") and mark:
            self.at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[mark]
        found = re.compile(_COUNTED).match(self.pattern, self.at) if mark == "{" else None
        if not found:
            return None
        self.at = found.end()
        low, comma, high, only_high = found.groups()
        if low is None:
            return 0, int(only_high) if only_high else None
        if not comma:
            return int(low), int(low)
        return int(low), int(high) if high else None

    def atom(self) -> tuple[int, int]:
        mark = self.peek()
        if mark == "(":
            return self.group()
        if mark in ("^", "$"):
            self.at += 1
            return self.anchor(_ANCHORS[mark])
        if mark == "[":
            return self.consume(self.class_text())
        if mark == "\\":
            return self.escape()
        self.at += 1
        if mark == ".":
            return self.consume(".")
        return self.literal(mark)

    def group(self) -> tuple[int, int]:
        opening = re.compile(_GROUP_START).match(self.pattern, self.at)
        if not opening:
            raise NotEvaluableError("lookaround, flags or another extension")
        self.at = opening.end()
        fragment = self.alternatives()
        if self.peek() != ")":
            raise NotEvaluableError("a group does not end")
        self.at += 1
        return fragment

    def anchor(self, kind: str) -> tuple[int, int]:
        first, last = self.new(anchor=kind), self.new()
        self.join(first, last)
        return first, last

    def literal(self, character: str) -> tuple[int, int]:
        first, last = self.new(accepts=character), self.new()
        self.join(first, last)
        return first, last

    def consume(self, text: str) -> tuple[int, int]:
        first, last = self.new(accepts=_compile_one(text)), self.new()
        self.join(first, last)
        return first, last

    def escape(self) -> tuple[int, int]:
        pair = self.pattern[self.at : self.at + 2]
        self.at += 2
        if pair in _ANCHORS:
            return self.anchor(_ANCHORS[pair])
        if pair[1:] in _CLASS_ESCAPES and len(pair) == 2:
            return self.consume(pair)
        if len(pair) == 2 and not pair[1].isalnum():
            return self.literal(pair[1])
        raise NotEvaluableError(f"escape {pair!r}")

    def class_text(self) -> str:
        at = self.at + 1
        at += self.pattern[at : at + 1] == "^"
        at += self.pattern[at : at + 1] == "]"
        while self.pattern[at : at + 1] not in ("]", ""):
            at += 2 if self.pattern[at] == "\\" else 1
        text = self.pattern[self.at : at + 1]
        self.at = at + 1
        return text


def _compile_one(text: str) -> re.Pattern[str]:
    """Return the pattern of one character: a dot, a class or an escape, which no engine can hang on."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(text)
    except re.error as err:
        raise NotEvaluableError(f"class {text[:40]!a}: {err}") from err


class Automaton:
    """A compiled pattern; transitions are worked out once and kept, up to a budget of steps."""

    def __init__(self, pattern: str) -> None:
        compiler = _Compiler(pattern)
        try:
            self._first, self._last = compiler.alternatives()
        except RecursionError as err:
            raise NotEvaluableError("groups nested too deep") from err
        if compiler.at != len(pattern):
            raise NotEvaluableError("a bracket too many")
        self._nodes = compiler.nodes
        self._steps_left = MAX_STEPS
        self._known: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}

    def matches_whole(self, text: str) -> bool:
        """Tell whether the pattern describes the whole text."""
        return self._run(text, lambda at: at == 0)

    def matches_from_any_word(self, text: str) -> bool:
        """Tell whether the pattern describes the text, or the part of it after one of its dots."""
        return self._run(text, lambda at: at == 0 or text[at - 1] == ".")

    def _run(self, text: str, may_start: "object") -> bool:
        states: frozenset[int] = frozenset()
        start = frozenset((self._first,))
        for at in range(len(text) + 1):
            if may_start(at):
                states = states | start
            before = text[at - 1] if at else ""
            if at == len(text):
                return self._last in self._closure(states, before, "")
            states = self._step(states, before, text[at])
        return False

    def _step(self, states: frozenset[int], before: str, character: str) -> frozenset[int]:
        if not states:
            return states
        key = (states, _kind(before), character)
        if key not in self._known:
            reached = self._closure(states, before, character)
            self._known[key] = frozenset(
                target
                for state in reached
                if _accepts(self._nodes[state].accepts, character)
                for target in self._nodes[state].targets
            )
        return self._known[key]

    def _closure(self, states: frozenset[int], before: str, after: str) -> set[int]:
        reached, queue = set(states), list(states)
        while queue:
            node = self._nodes[queue.pop()]
            self._steps_left -= 1
            if self._steps_left < 0:
                raise NotEvaluableError("the pattern needs too many steps")
            if node.accepts is None and _holds(node.anchor, before, after):
                fresh = [target for target in node.targets if target not in reached]
                reached.update(fresh)
                queue += fresh
        return reached


def _accepts(accepts: re.Pattern[str] | str | None, character: str) -> bool:
    if accepts is None:
        return False
    return accepts == character if isinstance(accepts, str) else accepts.match(character) is not None


def _is_word(character: str) -> bool:
    return character == "_" or character.isalnum()


def _kind(character: str) -> str:
    if not character:
        return "start"
    return "word" if _is_word(character) else "other"


def _holds(anchor: str | None, before: str, after: str) -> bool:
    if anchor is None:
        return True
    if anchor == "start":
        return before == ""
    if anchor == "end":
        return after == ""
    return (_is_word(before) != _is_word(after)) == (anchor == "boundary")
