"""All mistakes in the config file of a server, each with the command that corrects it. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError
from ...runtime.config import text_of
from ...runtime.config_references import has_reference, is_provider_key
from ...runtime.nearest import nearest
from ..secured_files import parse_properties
from .config_edits import KEYS, remove_key, remove_line, rename_key, set_key, set_to_output
from .config_file import (
    ALIASES,
    BOOTSTRAP,
    CONFIGS,
    CONTROLLER,
    NODE,
    PROCESS_ROLES,
    ROLES,
    check_role,
    role_of,
    server_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .config_file import ServerFile

    Resolve = Callable[[Mapping[str, Any]], dict[str, Any]]

LINE, KEY, VALUE, MISSING, TWICE, FILE = "line", "key", "value", "missing", "twice", "file"
# Without these no server starts; each may have another name, and an example.
_NEEDED = {
    CONTROLLER: (("metadata.log.dir", "log.dirs", "/var/lib/headrace/controller"),),
    NODE: (("log.dirs", "log.dirs", "/var/lib/headrace/node-1"), (BOOTSTRAP, BOOTSTRAP, "HOST:9090")),
}


@dataclass(frozen=True)
class Mistake:
    """`kind` is one of the constants above; `key` is empty for a mistake of the whole file."""

    kind: str
    key: str
    problem: str
    fix: str


def mistakes_of(
    path: str, text: str, overrides: Mapping[str, str], resolve: Resolve = dict
) -> tuple[str, list[Mistake], ServerFile | None]:
    """The role, every mistake, and the server that the other lines describe; None if they describe none.

    Arguments as of `server_file`; `path` is the file of `text`, for the commands.
    """
    found = list(_line_mistakes(path, text))
    values = {**_readable(text), **overrides}
    role = role_of(values)
    providers = {name: value for name, value in values.items() if is_provider_key(name)}
    sound: dict[str, str] = dict(providers)
    for name in [each for each in values if each not in providers]:
        mistake = _key_mistake(path, role, name, {**providers, name: values[name]}, resolve)
        if mistake is None:
            sound[name] = values[name]
        else:
            found.append(mistake)
    found += _missing(path, role, values)
    server = None
    try:
        server = server_file(role, "", sound, resolve)
    except ConfigError as error:
        # of keys together; if it names a key with a mistake it is a consequence of that
        if not any(each.key and each.key in str(error) for each in found):
            found.append(_of_the_whole(path, str(error)))
    return role, found, server


def _readable(text: str) -> dict[str, str]:
    """The lines that are `key=value`."""
    found = dict[str, str]()
    for line in text.splitlines():
        try:
            found |= parse_properties(line)
        except ValueError:
            continue
    return found


def _line_mistakes(path: str, text: str) -> Iterator[Mistake]:
    """Lines that are not `key=value`, and keys with several lines."""
    lines = text.splitlines()
    last = dict[str, int]()
    for number, line in enumerate(lines, 1):
        try:
            names = parse_properties(line)
        except ValueError:
            fix = remove_line(path, number, line) + "  # or write it as key=value"
            yield Mistake(LINE, "", f"line {number} is not key=value", fix)
            continue
        for name in names:
            if name in last:
                problem = f"{name} is on lines {last[name]} and {number}: the last one counts"
                fix = remove_line(path, last[name], lines[last[name] - 1])
                yield Mistake(TWICE, name, problem, fix)
            last[name] = number


def _key_mistake(path: str, role: str, name: str, given: dict[str, str], resolve: Resolve) -> Mistake | None:
    """Of one key; `given` also has the providers of its references."""
    if name == PROCESS_ROLES:
        return _role_mistake(path, role, given[name])
    # the controllers' key validates the addresses
    kind = CONFIGS[CONTROLLER if name == BOOTSTRAP else role]
    own = ALIASES[role].get(name, name)
    try:
        kind.field_of(own)
    except ConfigError:
        return _unknown(path, role, name)
    try:
        kind.check_value(own, resolve(given)[name])
    except ConfigError as error:
        default = text_of(kind.defaults().get(own, ""))
        return Mistake(VALUE, name, str(error), f"{set_key(path, name, default)}  # or another value: {KEYS}")
    return None


def _role_mistake(path: str, role: str, given: str) -> Mistake | None:
    try:
        check_role(role, given)
    except ConfigError as error:
        return Mistake(VALUE, PROCESS_ROLES, str(error), set_key(path, PROCESS_ROLES, ROLES[role]))
    return None


def _unknown(path: str, role: str, name: str) -> Mistake:
    """A key of the other role, or of none: with the nearest key."""
    other = CONTROLLER if role == NODE else NODE
    own, others = CONFIGS[role].keys(), CONFIGS[other].keys()
    near = nearest(name.replace("_", "."), {**own, **others})
    if near in own:
        problem = f"unknown key {name}; did you mean {near!r}?"
        return Mistake(KEY, name, problem, f"{rename_key(path, name, near)}  # or remove the line")
    known = "" if not near else f"; {near!r} is a key of a {ROLES[other]}, and this is a {ROLES[role]}"
    return Mistake(KEY, name, f"unknown key {name}{known}", remove_key(path, name))


def _missing(path: str, role: str, values: Mapping[str, str]) -> Iterator[Mistake]:
    for name, other, example in _NEEDED[role]:
        if not values.get(name) and not values.get(other):
            problem = f"{name} is missing: a {ROLES[role]} cannot start without it"
            yield Mistake(MISSING, name, problem, set_key(path, name, example))


def _of_the_whole(path: str, problem: str) -> Mistake:
    fix = f"${{EDITOR:-vi}} {shlex.quote(path)}  # the keys: {KEYS}"
    if "set advertised.host" in problem:
        fix = set_to_output(path, "advertised.host", "hostname -f")
    return Mistake(FILE, "", problem, fix)


def has_secret(role: str, text: str) -> bool:
    """Whether the file itself has the value of a sensitive key, not a reference to another place."""
    for name, value in _readable(text).items():
        try:
            is_sensitive = CONFIGS[role].declaration_of(name).is_sensitive
        except ConfigError:
            continue
        if is_sensitive and value and not has_reference(value):
            return True
    return False
