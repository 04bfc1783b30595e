"""Match regular expressions in linear time: a lazily built automaton instead of a backtracking engine.

Knows the part of the syntax that adapter configs use (literals, classes, groups, alternatives, repetitions, anchors,
word boundaries). Everything else, and whatever would grow too large, raises :class:`NotEvaluableError`.

Reference: Thompson 1968, "Regular expression search algorithm".
"""

import re
import warnings
from collections.abc import Iterable

from lora_spec.adapter.effort import Effort, NotEvaluableError

MAX_STATES = 4000  # of one pattern
_COUNTED = r"\{(?:(\d+)(,?)(\d*)|,(\d*))\}"
_SPECIAL = frozenset("\\[](){}*+?|.^$")
_CLASS_ESCAPES = frozenset("dDwWsS")
_ANCHORS = {"^": "start", "$": "end", "\\A": "start", "\\Z": "end", "\\b": "boundary", "\\B": "inside"}
_Accepts = re.Pattern[str] | str | None
_GROUP_START = r"\((?:\?:|\?P<[A-Za-z_]\w*>|(?!\?))"


class _Node:
    """A state: either consumes one character, or moves on freely (if its anchor holds)."""

    def __init__(self, *, accepts: _Accepts = None, anchor: str | None = None, targets: Iterable[int] = ()) -> None:
        self.accepts = accepts
        self.anchor = anchor
        self.targets = list(targets)


class _Compiler:
    """Recursive descent over the pattern; emits states. A fragment is (first state, last state)."""

    def __init__(self, pattern: str, effort: Effort) -> None:
        self.pattern = pattern
        self.effort = effort
        self.at = 0
        self.nodes: list[_Node] = []

    def new(self, **values: object) -> int:
        if len(self.nodes) >= MAX_STATES:
            raise NotEvaluableError("the pattern has too many states")
        self.effort.spend("states", 1)
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
    """A compiled pattern; sets of states and the moves between them are worked out once and kept."""

    def __init__(self, pattern: str, effort: Effort | None = None) -> None:
        self._effort = effort or Effort()
        compiler = _Compiler(pattern, self._effort)
        try:
            self._first, self._last = compiler.alternatives()
        except RecursionError as err:
            raise NotEvaluableError("groups nested too deep") from err
        if compiler.at != len(pattern):
            raise NotEvaluableError("a bracket too many")
        self._nodes = compiler.nodes
        self._sets: list[frozenset[int]] = []
        self._numbers: dict[frozenset[int], int] = {}
        self._nothing = self._number(frozenset())
        self._started: dict[int, int] = {}
        self._moves: dict[tuple[int, str, str], int] = {}
        self._ends: dict[tuple[int, str], bool] = {}

    def matches_whole(self, text: str) -> bool:
        """Tell whether the pattern describes the whole text."""
        return self._run(text, from_any_word=False)

    def matches_from_any_word(self, text: str) -> bool:
        """Tell whether the pattern describes the text, or the part of it after one of its dots."""
        return self._run(text, from_any_word=True)

    def _run(self, text: str, *, from_any_word: bool) -> bool:
        self._effort.spend("characters", len(text) + 1)
        state, kind, is_start = self._nothing, "start", True
        for character in text:
            if is_start:
                state = self._start(state)
            move = self._moves.get((state, kind, character))
            state = self._move(state, kind, character) if move is None else move
            kind, is_start = _kind(character), from_any_word and character == "."
        if is_start:
            state = self._start(state)
        if (state, kind) not in self._ends:
            self._ends[state, kind] = self._last in self._closure(self._sets[state], kind, "")
        return self._ends[state, kind]

    def _number(self, states: frozenset[int]) -> int:
        if states not in self._numbers:
            self._numbers[states] = len(self._sets)
            self._sets.append(states)
        return self._numbers[states]

    def _start(self, state: int) -> int:
        if state not in self._started:
            self._started[state] = self._number(self._sets[state] | {self._first})
        return self._started[state]

    def _move(self, state: int, kind: str, character: str) -> int:
        reached = self._closure(self._sets[state], kind, character)
        accepting = (self._nodes[place] for place in reached if _accepts(self._nodes[place].accepts, character))
        move = self._number(frozenset(target for node in accepting for target in node.targets))
        self._moves[state, kind, character] = move
        return move

    def _closure(self, states: frozenset[int], kind: str, after: str) -> set[int]:
        """Return the states reached without a character, between one of a kind and the next."""
        reached, queue = set(states), list(states)
        while queue:
            node = self._nodes[queue.pop()]
            self._effort.spend("steps", 1)
            if node.accepts is None and _holds(node.anchor, kind, after):
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
    return "word" if _is_word(character) else "other"


def _holds(anchor: str | None, kind: str, after: str) -> bool:
    if anchor is None:
        return True
    if anchor == "start":
        return kind == "start"
    if anchor == "end":
        return after == ""
    return ((kind == "word") != _is_word(after)) == (anchor == "boundary")
