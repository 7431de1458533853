"""Names of pipeline options: case-insensitive, client keys with a prefix, as in Spark. Pure."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ConfigError
from ..bootstrap import parse_addresses
from ..config import dotted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...runtime.config import Config

PREFIXES = ("kafka.", "headrace.")
_BOOTSTRAP = ("bootstrap", "bootstrap.servers", "kafka.bootstrap.servers", "headrace.bootstrap.servers")
# Spark's own options, which arrive with the others.
_OF_SPARK = frozenset(("checkpointlocation", "path", "queryname"))
_OF_SECURITY = ("sasl.", "security.", "ssl.")
# Aliases, by the real name.
_ALSO_CALLED = {
    "subscribe": ("topic",),
    "topic": ("subscribe",),
    "topics": ("subscribe", "topic"),
}
_TIMES_MS = {
    "": 1,
    "us": 0.001,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class Sorted(NamedTuple):
    """Options by purpose; `own` by real names, `client` by dotted names."""

    bootstrap: str | None
    own: dict[str, Any]
    client: dict[str, Any]


def sort_options(
    given: Mapping[str, Any],
    own_names: Iterable[str],
    schemas: tuple[type[Config], ...],
    reserved: Mapping[str, str],
) -> Sorted:
    """Classify all options. `reserved`: client keys that users may not set, with the reason.

    Errors: ConfigError for an unknown option, with similar names; for a duplicate one.
    """
    known = {name.lower(): name for name in own_names}
    client_keys = {name.lower(): name for schema in schemas for name in schema.keys()}  # noqa: SIM118
    found = Sorted(_bootstrap(given), {}, {})
    for option, value in given.items():
        name = option.lower()
        if name in _BOOTSTRAP or name in _OF_SPARK:
            continue
        prefix = next((each for each in PREFIXES if name.startswith(each)), None)
        if name in known:
            place, real = found.own, known[name]
        elif prefix is None:
            if name in client_keys:
                raise ConfigError(f"unknown option {option!r}; did you mean 'kafka.{client_keys[name]}'?")
            raise ConfigError(f"unknown option {option!r}{_near(name, [*known, *_BOOTSTRAP], known)}")
        else:
            key = name.removeprefix(prefix)
            _check_client_key(option, key, reserved, client_keys)
            place, real = found.client, dotted(client_keys[key], schemas)
            # hashable: options are part of the key of shared connections
            value = tuple(value) if isinstance(value, list) else value
        if real in place and place[real] != value:
            raise ConfigError(f"option {option!r} is given twice: {place[real]!r} and {value!r}")
        place[real] = value
    return found


def _check_client_key(
    option: str, key: str, reserved: Mapping[str, str], client_keys: Mapping[str, str]
) -> None:
    if key in reserved:
        raise ConfigError(f"option {option!r} is not supported: {reserved[key]}")
    if key not in client_keys:
        if key.startswith(_OF_SECURITY):
            raise ConfigError(
                f"option {option!r} is not supported: there is no authentication or encryption yet"
            )
        prefixed = {name: f"kafka.{real}" for name, real in client_keys.items()}
        raise ConfigError(f"option {option!r} is not a config key of clients{_near(key, prefixed, prefixed)}")


def _near(name: str, candidates: Iterable[str], real: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(name, list(dict.fromkeys(candidates)), n=3, cutoff=0.55)
    if name in _ALSO_CALLED:
        near = [each.lower() for each in _ALSO_CALLED[name] if each.lower() in real]
    names = ", ".join(repr(real.get(each, each)) for each in near)
    if names:
        return f"; similar options: {names}" if len(near) > 1 else f"; did you mean {names}?"
    return f"; the options are {', '.join(sorted(real.values()))}"


def _bootstrap(given: Mapping[str, Any]) -> str | None:
    found: dict[str, str] = {}
    for option, value in given.items():
        if option.lower() in _BOOTSTRAP and value is not None:
            found[option] = value if isinstance(value, str) else ",".join(_addresses(option, value))
    if len(set(found.values())) > 1:
        raise ConfigError(f"several bootstrap addresses are given: {found}")
    for text in found.values():
        parse_addresses(text)
        return text
    return None


def _addresses(option: str, value: Any) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise ConfigError(f"{option} must be 'host:port,…' or a list of 'host:port', not {value!r}")
    return list(value)


def time_ms(name: str, value: Any) -> int:
    """A duration in Spark's notation: 15m, 500ms, 2h; a bare number is ms. Errors: ConfigError."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = re.fullmatch(r"\s*([0-9]+)\s*([a-z]*)\s*", value.lower()) if isinstance(value, str) else None
    if match is None or match[2] not in _TIMES_MS:
        raise ConfigError(f"{name} must be a duration such as 500ms, 30s, 15m, 2h or 1d, not {value!r}")
    return int(int(match[1]) * _TIMES_MS[match[2]])
