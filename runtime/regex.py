"""Regular expressions for whole names of topics, transactional ids and clients, in RE2's syntax.

Python's `re` can take exponential time, so this is an automaton of its own: the time to match a name is
linear in its length, and all memory is bounded. Look-around and back references are not part of RE2; word
boundaries are, but are not supported here. Named character classes contain the characters of topic names, and
spaces. Source: RE2's syntax page (Kafka uses RE2/J); Kafka TopicRegexResolver.java.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.errors import InvalidRegularExpressionError
from ..protocol.records.group_records import ConsumerGroupRegularExpressionValue

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_LENGTH = 1000  # Bound: characters of an expression
MAX_DEPTH = 50  # Bound: nested groups; RE2 allows 1000, Python's stack does not
MAX_REPEAT = 1000  # as RE2
MAX_NODES = 3000  # Bound: nodes after expansion of repetitions
MAX_STATES = 1000  # Bound: cached sets of nodes; at the limit the cache is cleared
MAX_WORK = 200_000  # Bound: visited nodes of one resolution, a tenth of a second

_DIGITS = frozenset(string.digits)
_LETTERS = frozenset(string.ascii_letters)
_SPACES = frozenset(" \t\n\f\r")
_WORD = _DIGITS | _LETTERS | {"_"}
ALPHABET = _WORD | {".", "-"}  # the characters of topic names
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACES}
_NAMED = {
    "alnum": _DIGITS | _LETTERS,
    "alpha": _LETTERS,
    "ascii": ALPHABET,
    "blank": frozenset(" \t"),
    "cntrl": frozenset[str](),
    "digit": _DIGITS,
    "graph": ALPHABET,
    "lower": frozenset(string.ascii_lowercase),
    "print": ALPHABET,
    "punct": frozenset("._-"),
    "space": _SPACES,
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
_ACCEPT = 1  # the lowest bit of a node set


class _AllBut(frozenset[str]):
    """The complement of a character set, including characters that no topic name has."""

    def __contains__(self, char: object) -> bool:
        return not super().__contains__(char)


class _Chars(NamedTuple):
    allowed: frozenset[str]


class _Anchor(NamedTuple):
    is_start: bool


class _Sequence(NamedTuple):
    parts: tuple[_Tree, ...]


class _Choice(NamedTuple):
    options: tuple[_Tree, ...]


class _Repeat(NamedTuple):
    part: _Tree
    low: int
    high: int | None


_Tree = _Chars | _Anchor | _Sequence | _Choice | _Repeat


class Regex:
    """One compiled expression."""

    def __init__(self, tree: _Tree) -> None:
        self._nodes = _Nodes()
        start = self._nodes.compile(tree, self._nodes.match)
        self._first = self._nodes.closure(start, at_start=True)
        self._steps: dict[int, dict[str, int]] = {}  # node set -> character -> next node set

    @property
    def work(self) -> int:
        """Nodes visited by the last resolution."""
        return self._nodes.work

    def resolve(
        self, names: Iterable[str], version: int, wall_ms: int
    ) -> ConsumerGroupRegularExpressionValue:
        """The matching names, sorted, as a record value. Errors: InvalidRegularExpressionError if matching
        these names takes too long."""
        self._nodes.work = 0
        return ConsumerGroupRegularExpressionValue(
            tuple(sorted(filter(self.matches, names))), version, wall_ms
        )

    def matches_one(self, name: str) -> bool:
        """`matches` for a single name, with a work limit of its own; False if it takes too long."""
        self._nodes.work = 0
        try:
            return self.matches(name)
        except InvalidRegularExpressionError:
            return False

    def matches(self, name: str) -> bool:
        """Whether the expression matches the whole name."""
        state = self._first
        steps = self._steps
        for char in name:
            known = steps.get(state)
            after = None if known is None else known.get(char)
            if after is None:
                after = self._step(state, char)
            if not after:
                return False
            state = after
        return bool(state & _ACCEPT)

    def _step(self, state: int, char: str) -> int:
        nodes = self._nodes
        after = 0
        rest = state & ~_ACCEPT
        while rest:
            lowest = rest & -rest
            rest ^= lowest
            nodes.work += 1
            allowed, follow = nodes.consuming[lowest.bit_length() - 2]
            if char in allowed:
                after |= nodes.closure(follow)
            if nodes.work > MAX_WORK:
                raise InvalidRegularExpressionError(
                    "matching the expression against the existing names takes too long"
                )
        if char in ALPHABET:  # Bound: steps of other characters, of which there are a million, are not cached
            if len(self._steps) >= MAX_STATES:
                self._steps.clear()
            self._steps.setdefault(state, {})[char] = after
        return after


class _Nodes:
    """The automaton. A node consumes a character, or has transitions without one; sets of consuming nodes are
    bits of an integer, node i being bit i + 1."""

    def __init__(self) -> None:
        self.consuming: list[tuple[frozenset[str], int]] = []
        self._ways: list[tuple[int, ...]] = []  # node -> its transitions without a character
        self._takes: dict[int, int] = {}  # node -> its index in `consuming`
        self._anchors: dict[int, bool] = {}  # node -> transitions only at the start (True) or end of the name
        self._closures: dict[tuple[int, bool], int] = {}
        self._calls = 0
        self.work = 0
        self.match = self._add()

    def _add(self, *ways: int) -> int:
        if len(self._ways) >= MAX_NODES:
            raise InvalidRegularExpressionError(f"the expression grows to more than {MAX_NODES} nodes")
        self._ways.append(ways)
        return len(self._ways) - 1

    def compile(self, tree: _Tree, follow: int) -> int:
        """The start node of `tree`, continued at `follow`."""
        self._calls += 1
        if self._calls > 4 * MAX_NODES:
            raise InvalidRegularExpressionError("the expression has too many repetitions")
        match tree:
            case _Chars(allowed):
                node = self._add()
                self._takes[node] = len(self.consuming)
                self.consuming.append((allowed, follow))
                return node
            case _Anchor(is_start):
                node = self._add(follow)
                self._anchors[node] = is_start
                return node
            case _Sequence(parts):
                for part in reversed(parts):
                    follow = self.compile(part, follow)
                return follow
            case _Choice(options):
                return self._add(*(self.compile(option, follow) for option in options))
            case _Repeat():
                return self._compile_repeat(tree, follow)

    def _compile_repeat(self, tree: _Repeat, follow: int) -> int:
        node = follow
        if tree.high is None:
            node = self._add()
            self._ways[node] = (self.compile(tree.part, node), follow)
        else:
            for _ in range(tree.high - tree.low):
                node = self._add(self.compile(tree.part, node), follow)
        for _ in range(tree.low):
            node = self.compile(tree.part, node)
        return node

    def closure(self, node: int, *, at_start: bool = False) -> int:
        """All consuming nodes reachable without a character, and whether the name may end here."""
        known = self._closures.get((node, at_start))
        if known is None:
            inside = self._reach(node, at_start=at_start, at_end=False)
            found = sum(1 << (self._takes[each] + 1) for each in inside if each in self._takes)
            at_end = self._reach(node, at_start=at_start, at_end=True)
            known = self._closures[node, at_start] = found | (_ACCEPT if self.match in at_end else 0)
        return known

    def _reach(self, node: int, *, at_start: bool, at_end: bool) -> set[int]:
        seen = {node}
        left = [node]
        while left:
            each = left.pop()
            anchor = self._anchors.get(each)
            if anchor is None or (at_start if anchor else at_end):
                new = [way for way in self._ways[each] if way not in seen]
                seen.update(new)
                left += new
        self.work += len(seen)
        return seen


def compile_regex(expression: str) -> Regex:
    """Errors: InvalidRegularExpressionError with the reason and the position."""
    if len(expression) > MAX_LENGTH:
        raise InvalidRegularExpressionError(f"the expression has more than {MAX_LENGTH} characters")
    return Regex(_Parser(expression).parse())


class _Parser:
    """Recursive descent; `_at` is the position of the next character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._folds_case = False

    def parse(self) -> _Tree:
        tree = self._choice()
        if self._at < len(self._text):
            raise self._fault("unmatched ')'")
        return tree

    def _fault(self, what: str) -> InvalidRegularExpressionError:
        return InvalidRegularExpressionError(f"{what} at {self._at} of {self._text[:100]!r}")

    def _peek(self, ahead: int = 0) -> str:
        return self._text[self._at + ahead : self._at + ahead + 1]

    def _takes(self, token: str) -> bool:
        if not self._text.startswith(token, self._at):
            return False
        self._at += len(token)
        return True

    def _next(self, what: str) -> str:
        char = self._peek()
        if not char:
            raise self._fault(f"{what} is missing")
        self._at += 1
        return char

    def _choice(self) -> _Tree:
        options = [self._sequence()]
        while self._takes("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else _Choice(tuple(options))

    def _sequence(self) -> _Tree:
        parts: list[_Tree] = []
        while self._peek() not in ("", "|", ")"):
            part = self._atom()
            if part is not None:
                parts.append(self._repeated(part))
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def _repeated(self, part: _Tree) -> _Tree:
        bounds = self._bounds()
        if bounds is None:
            return part
        self._takes("?")  # lazy repetition: equivalent for a whole name
        if self._peek() in ("*", "+", "?") or self._bounds() is not None:
            raise self._fault("a repetition of a repetition")
        return _Repeat(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for token, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._takes(token):
                return bounds
        end = self._text.find("}", self._at)
        if self._peek() != "{" or end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not _is_number(low) or not (_is_number(high) or (comma and not high) or not comma):
            return None  # then the brace is literal
        least = int(low)
        most = least if not comma else int(high) if high else None
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise self._fault(f"a repetition is not within 0..{MAX_REPEAT}")
        self._at = end + 1
        return least, most

    def _atom(self) -> _Tree | None:
        char = self._next("an expression")
        if char in "*+?":
            raise self._fault("a repetition of nothing")
        if char in "^$":
            return _Anchor(is_start=char == "^")
        match char:
            case "(":
                return self._group()
            case "[":
                return _Chars(self._char_class())
            case "\\":
                return self._escape()
        return _Chars(_AllBut() if char == "." else self._folded(frozenset(char)))

    def _group(self) -> _Tree | None:
        folds_case = self._folds_case
        if self._takes("?"):
            if self._takes("P<") or (
                self._peek() == "<" and self._peek(1) not in ("=", "!") and self._takes("<")
            ):
                name = self._until(">")
                if not name or not set(name) <= _WORD:
                    raise self._fault("a bad name of a group")
            elif self._flags():
                return None  # flags for the rest of the enclosing group
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._fault(f"more than {MAX_DEPTH} groups within groups")
        tree = self._choice()
        if not self._takes(")"):
            raise self._fault("a ')' is missing")
        self._depth -= 1
        self._folds_case = folds_case
        return tree

    def _flags(self) -> bool:
        """Flags after "(?"; True: they apply to the rest of the group, False: to the group that starts
        here."""
        is_on = True
        while True:
            match self._next("the end of the flags"):
                case "-" if is_on:
                    is_on = False
                case "i":
                    self._folds_case = is_on
                case "m" | "s" | "U":
                    pass  # a name has no lines, and is matched as a whole
                case ")":
                    return True
                case ":":
                    return False
                case _:
                    raise self._fault("no such group or flag in RE2")

    def _until(self, end: str) -> str:
        at = self._text.find(end, self._at)
        if at < 0:
            raise self._fault(f"{end!r} is missing")
        found, self._at = self._text[self._at : at], at + 1
        return found

    def _escape(self) -> _Tree:
        char = self._next("what is escaped")
        match char:
            case "A":
                return _Anchor(is_start=True)
            case "z":
                return _Anchor(is_start=False)
            case "Q":
                end = self._text.find("\\E", self._at)
                quoted = self._text[self._at :] if end < 0 else self._text[self._at : end]
                self._at += len(quoted) + (2 if end >= 0 else 0)
                return _Sequence(tuple(_Chars(self._folded(frozenset(each))) for each in quoted))
        return _Chars(self._folded(self._escaped_class(char)))

    def _escaped_class(self, char: str) -> frozenset[str]:
        if char.lower() in _CLASSES:
            allowed = _CLASSES[char.lower()]
            return allowed if char.islower() else ALPHABET - allowed
        if char == "x":
            digits = self._until("}") if self._takes("{") else self._next("a digit") + self._next("a digit")
            if (
                not digits
                or len(digits) > 6
                or not set(digits) <= _NAMED["xdigit"]
                or int(digits, 16) > 0x10FFFF
            ):
                raise self._fault("a bad number of a character")
            return frozenset(chr(int(digits, 16)))
        if char in _DIGITS | _LETTERS:
            raise self._fault(f"\\{char} is not understood")
        return frozenset(char)

    def _char_class(self) -> frozenset[str]:
        is_negated = self._takes("^")
        found: set[str] = set()
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            if self._takes("[:"):
                found |= self._named_class()
                continue
            low = self._class_part()
            if self._peek() == "-" and self._peek(1) not in ("", "]"):
                self._at += 1
                high = self._class_part()
                if len(low) != 1 or len(high) != 1 or max(low) > max(high):
                    raise self._fault("a bad range")
                found |= _within(max(low), max(high))
            else:
                found |= low
        self._at += 1
        folded = self._folded(frozenset(found))
        return _AllBut(folded) if is_negated else folded

    def _class_part(self) -> frozenset[str]:
        char = self._next("a ']'")
        return self._escaped_class(self._next("what is escaped")) if char == "\\" else frozenset(char)

    def _named_class(self) -> frozenset[str]:
        name = self._until(":]") if ":]" in self._text[self._at :] else ""
        self._at += 1
        is_negated = name.startswith("^")
        if name.removeprefix("^") not in _NAMED:
            raise self._fault(f"no class of characters {name[:20]!r}")
        found = _NAMED[name.removeprefix("^")]
        return ALPHABET - found if is_negated else found

    def _folded(self, allowed: frozenset[str]) -> frozenset[str]:
        return frozenset(_folded(allowed)) if self._folds_case else allowed


def _is_number(text: str) -> bool:
    return 0 < len(text) <= len(str(MAX_REPEAT)) and set(text) <= _DIGITS


def _within(low: str, high: str) -> frozenset[str]:
    return frozenset(char for char in ALPHABET if low <= char <= high)


def _folded(allowed: frozenset[str]) -> Iterable[str]:
    return (each for char in allowed for each in (char.lower(), char.upper()))
