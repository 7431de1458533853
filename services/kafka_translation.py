"""Command lines of Apache Kafka's tools as command lines of headrace, by `kafka_options`. Pure."""

from __future__ import annotations

import fnmatch
import functools
import itertools
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.errors import HeadraceError
from .kafka_forms import forms_of
from .kafka_options import GLOBAL, LOCAL, OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_LINE = re.compile(r"(?P<name>\S+?)(?: (?P<arity>V[?+]?))?:(?: (?P<words>.*))?")
_USE = re.compile(r"\[(?P<when>.*)\] (?P<command>[^#]*)(?:  # (?P<remark>.*))?")
_FORM = re.compile(r"\{(\w*)\}")
_OTHER_WORDS = "*"


class TranslationError(HeadraceError):
    """A command line without an equivalent."""


class Option(NamedTuple):
    """An option of Kafka's tool. `arity`: "" of a flag, V, V? or V+. `words` begin with ! without an
    equivalent."""

    arity: str
    words: str


class Use(NamedTuple):
    """A use of a tool: what its command line has, the command here, its options by name."""

    when: tuple[str, ...]
    command: str
    remark: str
    options: dict[str, Option]


class Translation(NamedTuple):
    """The command line, and what the user has to know or to replace in it."""

    command: str
    remark: str


@functools.cache
def uses_of(tool: str) -> tuple[Use, ...]:
    """The uses of a tool, in the order in which they are tried; empty for a tool without commands."""
    blocks: dict[str, list[str]] = {}
    common: list[str] = [] if tool in LOCAL else GLOBAL.split("\n")
    uses: list[tuple[re.Match[str], list[str]]] = []
    target = common
    for line in OPTIONS.get(tool, "").split("\n"):
        if line.startswith("["):
            found = _USE.fullmatch(line)
            assert found is not None, line
            target = []
            uses.append((found, target))
        elif line.startswith("="):
            target = blocks.setdefault(line[1:], [])
        else:
            target.append(line)
    result = []
    for found, own in uses:
        when = tuple(found["when"].split())
        options = dict(_options(own, blocks))
        options = {
            **options,
            **{name: each for name, each in _options(common, blocks) if name not in options},
        }
        for word in when:
            options.setdefault(word.partition("=")[0], Option("", ""))
        result.append(Use(when, found["command"].strip(), found["remark"] or "", options))
    return tuple(result)


def _options(lines: Iterable[str], blocks: dict[str, list[str]]) -> Iterable[tuple[str, Option]]:
    for line in filter(None, lines):
        if line.startswith("+"):
            yield from _options(blocks[line[1:]], blocks)
            continue
        found = _LINE.fullmatch(line)
        assert found is not None, line
        yield found["name"], Option(found["arity"] or "", found["words"] or "")


def translate(tool: str, words: Sequence[str], read: Callable[[str], str]) -> Translation:
    """The command line here. `read` gives the text of a file that the command line names.

    Errors: TranslationError; OSError of `read`.
    """
    given = _normal(tool, words)
    use = next((each for each in uses_of(tool) if _fits(each, given)), None)
    if use is None:
        raise TranslationError(
            f"{tool} {shlex.join(words)}".rstrip()
            + f" has no equivalent; `headrace kafka-tools {tool}` shows the uses of the tool"
        )
    values = _values(tool, use, given)
    result = ["headrace", *use.command.split()]
    for name, option in use.options.items():
        if name not in values:
            continue
        if option.words.startswith("!"):
            raise TranslationError(f"{tool} {name} has no equivalent: {option.words[2:]}")
        try:
            result += _words_of(option, values[name], read)
        except (ValueError, KeyError) as error:
            raise TranslationError(f"{tool} {name}: {error}") from error
    return Translation(shlex.join(result), use.remark)


def _normal(tool: str, words: Sequence[str]) -> list[str]:
    """`--option=value` as two words, and the entities of kafka-configs as options."""
    plain: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        plain += [name, value] if equals and name.startswith("--") else [word]
    return _entities(plain) if tool == "kafka-configs" else plain


def _entities(words: list[str]) -> list[str]:
    """`--users ann` for `--entity-type users --entity-name ann` and for `--user ann`; `--users-defaults` for
    --entity-default."""
    kinds, names, rest = list[str](), list[list[str]](), list[str]()
    left = iter(words)
    for word in left:
        kind = word.removeprefix("--").removesuffix("-defaults")
        if word == "--entity-type":
            kinds.append(next(left, ""))
        elif word == "--entity-name":
            names.append([next(left, "")])
        elif word == "--entity-default":
            names.append([])
        elif word.startswith("--") and kind in ENTITY_KINDS:
            plural = ENTITY_KINDS[kind]
            rest.append(f"--{plural}-defaults" if word.endswith("-defaults") else f"--{plural}")
        else:
            rest.append(word)
    for number, kind in enumerate(kinds):
        if number >= len(names):
            rest.append(f"--{kind}")
        elif names[number]:
            rest += [f"--{kind}", *names[number]]
        else:
            rest.append(f"--{kind}-defaults")
    return rest


ENTITY_KINDS = {
    "topic": "topics",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "user": "users",
    "client": "clients",
    "ip": "ips",
    "group": "groups",
    "client-metrics": "client-metrics",
}


def _fits(use: Use, words: Sequence[str]) -> bool:
    """Whether the command line has all words of the use."""

    def has(word: str) -> bool:
        name, equals, pattern = word.partition("=")
        if not equals:
            return name in words
        pairs = itertools.pairwise(words)
        return any(one == name and fnmatch.fnmatch(two.lower(), pattern.lower()) for one, two in pairs)

    return all(map(has, use.when))


def _values(tool: str, use: Use, words: Sequence[str]) -> dict[str, list[str | None]]:
    """The values of each option, None for a flag. Errors: TranslationError."""
    found: dict[str, list[str | None]] = {}
    left = list(words)
    while left:
        name = left.pop(0)
        option = use.options.get(name)
        if option is None and not name.startswith("-") and _OTHER_WORDS in use.options:
            found.setdefault(_OTHER_WORDS, []).append(name)
            continue
        if option is None:
            raise TranslationError(f"{tool} has no option {name}, or not together with {' '.join(use.when)}")
        values = found.setdefault(name, [])
        is_next = bool(left) and not _is_option(left[0], use)
        if option.arity == "V" and not left:
            raise TranslationError(f"{tool} {name} needs a value")
        if option.arity == "V" or (option.arity in ("V?", "V+") and is_next):
            values.append(left.pop(0))
            while option.arity == "V+" and left and not _is_option(left[0], use):
                values.append(left.pop(0))
        else:
            values.append(None)
    return found


def _is_option(word: str, use: Use) -> bool:
    return word in use.options or word.startswith("--")


def _words_of(option: Option, values: Sequence[str | None], read: Callable[[str], str]) -> Iterable[str]:
    """Of one option with all its values. Errors: ValueError for a value that has no equivalent."""
    found = _FORM.search(option.words)
    if found is None:
        for _ in values:
            yield from option.words.split()
        return
    forms = forms_of(found[1], values, read)
    if found[0] == option.words:  # the form has the names of the options, too
        yield from forms
        return
    for form in forms:
        yield from (word.replace(found[0], form) for word in option.words.split())
