"""Kafka's `sasl.jaas.config`: a login module and its options. Pure.

`module.Class required name="value" name=value;` Errors never show a value: most are secrets.
Source: Kafka JaasConfig.java, which reads it with a java.io.StreamTokenizer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FLAGS = ("required", "requisite", "sufficient", "optional")
MAX_CHARS = 1024 * 1024
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<mark>[=;])|"(?P<double>(?:\\.|[^"\\\n])*)"|'(?P<single>(?:\\.|[^'\\\n])*)'"""
    r"""|(?P<word>[A-Za-z0-9_.$\-\x80-\U0010ffff]+)""",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)


class JaasError(ValueError):
    """The text is not a JAAS configuration; its message has no values."""


class JaasModule(NamedTuple):
    """One login module. Not printed: its options are secrets."""

    name: str  # a Java class
    flag: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"JaasModule({self.name}, {self.flag}, ...)"


class _Token(NamedTuple):
    text: str
    is_mark: bool


def parse_jaas(text: str) -> tuple[JaasModule, ...]:
    """The modules in their order. Errors: JaasError."""
    if len(text) > MAX_CHARS:
        raise JaasError(f"a JAAS configuration of {len(text)} characters")
    tokens = list(_tokens(text))
    modules: list[JaasModule] = []
    at = 0
    while at < len(tokens):
        module, at = _module(tokens, at)
        modules.append(module)
    if not modules:
        raise JaasError("the JAAS configuration has no login module")
    return tuple(modules)


def single_module(text: str, suffix: str) -> JaasModule:
    """The only module, whose class name ends with `suffix`. Errors: JaasError."""
    modules = parse_jaas(text)
    if len(modules) != 1:
        raise JaasError(f"a mechanism needs one login module, not {len(modules)}")
    if not modules[0].name.endswith(suffix):
        raise JaasError(f"the login module of this mechanism is {suffix}, not {modules[0].name[:200]}")
    return modules[0]


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise JaasError(f"the JAAS configuration is not valid at character {at + 1}")
        at = match.end()
        kind = match.lastgroup
        if kind in ("double", "single"):
            yield _Token(_ESCAPE.sub(_unescaped, match[kind]), is_mark=False)
        elif kind is not None:
            yield _Token(match[kind], kind == "mark")


def _unescaped(match: re.Match[str]) -> str:
    text = match[1]
    return chr(int(text, 8)) if text.isdigit() and text < "8" else _ESCAPES.get(text, text)


def _module(tokens: list[_Token], at: int) -> tuple[JaasModule, int]:
    name, flag = _word(tokens, at, "a login module"), _word(tokens, at + 1, "a control flag").lower()
    if flag not in FLAGS:
        # without the words themselves: this may be a password without its module
        raise JaasError(f"the control flag of a login module must be one of {', '.join(FLAGS)}")
    at += 2
    options: dict[str, str] = {}
    while not _is_mark(tokens, at, ";"):
        option = _word(tokens, at, "an option or ;")
        if not _is_mark(tokens, at + 1, "="):
            raise JaasError(f"option {len(options) + 1} of {name[:200]} has no value")
        if option in options:
            raise JaasError(f"option {len(options) + 1} of {name[:200]} is given twice")
        options[option] = _word(tokens, at + 2, "a value")
        at += 3
    return JaasModule(name, flag, options), at + 1


def _word(tokens: list[_Token], at: int, what: str) -> str:
    if at >= len(tokens) or tokens[at].is_mark:
        raise JaasError(f"the JAAS configuration lacks {what} at token {at + 1}")
    return tokens[at].text


def _is_mark(tokens: list[_Token], at: int, mark: str) -> bool:
    return at < len(tokens) and tokens[at] == (mark, True)
