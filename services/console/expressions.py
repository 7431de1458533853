"""The expressions of a search: a small language, parsed and evaluated without `eval`. Pure.

    value.amount > 100 and (key startswith "eu-" or headers.source == "web") and not value.test

Operands: `key`, `value`, `headers`, `offset`, `partition`, `timestamp` (ms), `size`; members by `.name` or
`["name"]`, elements by `[0]`; texts, numbers, true, false, null, lists; `len(x)`, `lower(x)`,
`time("2026-01-31")`. Operators: == != < <= > >= in contains startswith endswith like and or not. `like` has *
and ?. A missing member is null. Values of different types are unequal, and neither is smaller. There are no
regular expressions: their time is not bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from ...protocol.errors import ConfigError

MOST_CHARACTERS = 2_000
_MOST_DEPTH = 40
Node = Callable[[Mapping[str, Any]], Any]
NAMES = ("key", "value", "headers", "offset", "partition", "timestamp", "size")

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
        |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
        |(?P<word>[A-Za-z_]\w*)
        |(?P<sign>==|!=|<=|>=|&&|\|\||[<>()\[\].,!])
        |(?P<end>$))""",
    re.X,
)
_WORDS = {"&&": "and", "||": "or", "!": "not"}
_LITERALS = {"true": True, "false": False, "null": None}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


class ExpressionError(ConfigError):
    """An expression that cannot be parsed; the message has the position."""


def compile_expression(text: str) -> Callable[[Mapping[str, Any]], bool]:
    """A predicate on the operands of a record. Errors: ExpressionError."""
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(f"an expression has at most {MOST_CHARACTERS} characters, not {len(text)}")
    parser = _Parser(text)
    node = parser.whole()
    return lambda names: _is_true(node(names))


class _Parser:
    """Recursive descent: or, and, not, comparison, operand."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at, self._depth = 0, 0

    def whole(self) -> Node:
        node = self._either()
        if self._kind() != "end":
            raise self._error("an operator")
        return node

    def _either(self) -> Node:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise ExpressionError(f"an expression is nested at most {_MOST_DEPTH} deep")
        node = self._both()
        while self._takes("or"):
            node = _either_of(node, self._both())
        self._depth -= 1
        return node

    def _both(self) -> Node:
        node = self._negated()
        while self._takes("and"):
            node = _both_of(node, self._negated())
        return node

    def _negated(self) -> Node:
        is_negated = False
        while self._takes("not"):
            is_negated = not is_negated
        node = self._comparison()
        return _not_of(node) if is_negated else node

    def _comparison(self) -> Node:
        left = self._operand()
        sign = self._token()
        if self._kind() in ("sign", "word") and sign in _COMPARISONS:
            self._at += 1
            return _compared(_COMPARISONS[sign], left, self._operand())
        return left

    def _operand(self) -> Node:
        kind, token = self._kind(), self._token()
        if kind == "end":
            raise self._error("an operand")
        self._at += 1
        if (kind, token) == ("sign", "("):
            node = self._either()
            self._expect(")")
            return node
        if (kind, token) == ("sign", "["):
            return self._list()
        if kind in ("number", "text") or token in _LITERALS:
            return _constant(_literal(kind, token))
        if kind != "word":
            self._at -= 1
            raise self._error("an operand")
        return self._named(token)

    def _named(self, token: str) -> Node:
        """A function or a path."""
        if token in _FUNCTIONS:
            self._expect("(")
            argument = self._either()
            self._expect(")")
            return _called(_FUNCTIONS[token], argument)
        if token in NAMES:
            return self._path(token)
        self._at -= 1
        raise ExpressionError(
            f"{token!r} is none of {', '.join(NAMES)}, {', '.join(_FUNCTIONS)}; texts have quotes"
        )

    def _path(self, name: str) -> Node:
        steps: list[Any] = []
        while self._kind() == "sign" and self._token() in (".", "["):
            sign = self._token()
            self._at += 1
            kind, token = self._kind(), self._token()
            if sign == "." and kind == "word":
                steps.append(token)
            elif sign == "[" and kind == "number" and token.isdecimal():
                steps.append(int(token))
            elif sign == "[" and kind == "text":
                steps.append(_unquoted(token))
            else:
                raise self._error("the name or number of a member")
            self._at += 1
            if sign == "[":
                self._expect("]")
        return _path_of(name, tuple(steps))

    def _list(self) -> Node:
        items: list[Node] = []
        while not self._takes("]"):
            if items:
                self._expect(",")
            items.append(self._operand())
        return lambda names: [item(names) for item in items]

    def _kind(self) -> str:
        return self._tokens[self._at][0]

    def _token(self) -> str:
        return self._tokens[self._at][1]

    def _takes(self, token: str) -> bool:
        if self._kind() in ("sign", "word") and self._token() == token:
            self._at += 1
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._takes(token):
            raise self._error(repr(token))

    def _error(self, expected: str) -> ExpressionError:
        kind, token, position = self._tokens[self._at]
        found = "the end" if kind == "end" else repr(token)
        return ExpressionError(f"position {position + 1}: expected {expected}, found {found}")


def _tokens(text: str) -> list[tuple[str, str, int]]:
    found: list[tuple[str, str, int]] = []
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            rest = text[position:].lstrip()
            at = len(text) - len(rest) + 1
            raise ExpressionError(f"position {at}: {rest[:10]!r} is no operator")
        kind = str(match.lastgroup)
        token = match[kind]
        found.append((kind, _WORDS.get(token, token) if kind == "sign" else token, match.start(kind)))
        if kind == "end":
            return found
        position = match.end()


def _literal(kind: str, token: str) -> Any:
    if kind == "text":
        return _unquoted(token)
    if kind == "number":
        return float(token) if re.search(r"[.eE]", token) else int(token)
    return _LITERALS[token]


def _unquoted(token: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), token[1:-1])


def _constant(value: Any) -> Node:
    return lambda _names: value


def _either_of(left: Node, right: Node) -> Node:
    return lambda names: _is_true(left(names)) or _is_true(right(names))


def _both_of(left: Node, right: Node) -> Node:
    return lambda names: _is_true(left(names)) and _is_true(right(names))


def _not_of(node: Node) -> Node:
    return lambda names: not _is_true(node(names))


def _compared(compare: Callable[[Any, Any], bool], left: Node, right: Node) -> Node:
    return lambda names: compare(left(names), right(names))


def _called(function: Callable[[Any], Any], argument: Node) -> Node:
    return lambda names: function(argument(names))


def _path_of(name: str, steps: tuple[Any, ...]) -> Node:
    def walk(names: Mapping[str, Any]) -> Any:
        value = names.get(name)
        for step in steps:
            if isinstance(value, Mapping):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int):
                value = value[step] if step < len(value) else None
            else:
                return None
        return value

    return walk


def _is_true(value: Any) -> bool:
    return value is not None and value is not False and value != 0 and value != ""


def _kind_of(value: Any) -> type | None:
    if isinstance(value, bool) or value is None:
        return type(value)
    if isinstance(value, (int, float)):
        return float
    return str if isinstance(value, str) else None


def _equal(left: Any, right: Any) -> bool:
    if _kind_of(left) is not _kind_of(right):
        return False
    return bool(left == right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(left: Any, right: Any) -> bool:
        kind = _kind_of(left)
        return kind in (float, str) and kind is _kind_of(right) and compare(left, right)

    return compared


def _contains(left: Any, right: Any) -> bool:
    if isinstance(left, str):
        return isinstance(right, str) and right in left
    if isinstance(left, Mapping):
        return isinstance(right, str) and right in left
    return isinstance(left, list) and any(_equal(each, right) for each in left)


def _of_texts(compare: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: isinstance(left, str) and isinstance(right, str) and compare(left, right)


def is_like(text: str, pattern: str) -> bool:
    """Whether the whole text matches the pattern, in which * is any text and ? any character; in time
    len(text) * len(pattern) at most."""
    at, place = 0, 0
    star, mark = -1, 0
    while at < len(text):
        if place < len(pattern) and pattern[place] == "*":
            star, mark = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in ("?", text[at]):
            at, place = at + 1, place + 1
        elif star >= 0:
            mark += 1
            at, place = mark, star + 1
        else:
            return False
    return not pattern[place:].strip("*")


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, (str, list, Mapping)) else None


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _time(value: Any) -> int | None:
    try:
        when = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {"len": _length, "lower": _lower, "time": _time}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordered(lambda left, right: left < right),
    "<=": _ordered(lambda left, right: left <= right),
    ">": _ordered(lambda left, right: left > right),
    ">=": _ordered(lambda left, right: left >= right),
    "in": lambda left, right: _contains(right, left),
    "contains": _contains,
    "startswith": _of_texts(str.startswith),
    "endswith": _of_texts(str.endswith),
    "like": _of_texts(is_like),
}
