"""Configuration keys, declared once next to their owner: name, default, range, unit and doc.

A `Config` subclass is a frozen dataclass whose fields come from `key(...)`. Values come from keyword
arguments (with underscores) or a mapping of Kafka's dotted names, typed or as text. Errors for unknown keys
suggest the nearest name. A key whose name ends in `.*` takes all keys with that prefix, as a list of
`rest=value`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple, Self, get_type_hints

from ..protocol.errors import ConfigError
from .nearest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
MAX_LONG = 2**63 - 1
MAX_INT = 2**31 - 1
FAMILY = ".*"  # end of the name of a key that takes all keys with its prefix


@dataclass(frozen=True, slots=True)
class KeyDeclaration:
    """The declaration of one config key; `choices` limits text, `low` and `high` limit numbers
    (inclusive)."""

    name: str
    doc: str
    unit: str
    low: float | None
    high: float | None
    choices: tuple[str, ...] | None
    live: bool
    is_sensitive: bool = False
    default_of: str = ""  # this key is the default of that key of another configuration


def key(
    name: str,
    default: Any,
    *,
    doc: str,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] | None = None,
    live: bool = False,
    sensitive: bool = False,
) -> Any:
    """Declare one config key as a dataclass field.

    `live` keys may change while the server runs. Values of `sensitive` keys are never shown: not in errors,
    reprs or descriptions.
    """
    return declared(KeyDeclaration(name, doc, unit, low, high, choices, live, sensitive), default)


def declared(declaration: KeyDeclaration, default: Any) -> Any:
    """Declare a config key as a dataclass field."""
    return field(default=default, metadata={"key": declaration}, repr=not declaration.is_sensitive)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Base of declared configurations; validates types and ranges of all fields at construction."""

    def __post_init__(self) -> None:
        declared = _declared(type(self))
        for (declaration, name, kind), default in zip(declared.keys, declared.valid, strict=True):
            value = getattr(self, name)
            if value is not default:
                object.__setattr__(self, name, _checked(declaration, kind, value))

    @classmethod
    def keys(cls) -> Mapping[str, KeyDeclaration]:
        """All keys by dotted name, in the order of declaration."""
        return _declared(cls).declarations

    @classmethod
    def defaults(cls) -> Mapping[str, Any]:
        """All defaults by dotted name; some keys have no default that is valid alone."""
        return _declared(cls).defaults

    @classmethod
    def types(cls) -> Mapping[str, Any]:
        """The Python types of all values by dotted name."""
        return _declared(cls).types

    @classmethod
    def field_of(cls, name: str, *, is_keyword: bool = False) -> str:
        """The field of a dotted or underscored name. Errors: ConfigError with the nearest name."""
        declared = _declared(cls)
        known = declared.fields
        family = _family_of(name, declared.families)
        if family:
            return known[family]
        found = known.get(name) or (name if name in known.values() else known.get(name.replace("_", ".")))
        if found is None:
            hint = nearest_key(name, known, is_keyword=is_keyword)
            raise ConfigError(f"unknown config key {name!r}{hint}")
        return found

    @classmethod
    def of(cls, mapping: Mapping[str, Any] | None = None, /, **kwargs: Any) -> Self:
        """Build from a mapping of dotted or underscored names; keyword arguments override it."""
        values: dict[str, Any] = {}
        for name, value in (mapping or {}).items():
            cls._take(values, cls.field_of(name), name, value)
        for name, value in kwargs.items():
            cls._take(values, cls.field_of(name, is_keyword=True), name, value)
        return cls(**values)

    @classmethod
    def declaration_of(cls, name: str) -> KeyDeclaration:
        """The declaration of a dotted or underscored name, that of its family for one of a family. Errors:
        ConfigError."""
        found = cls.field_of(name)
        return next(declaration for declaration, field_name, _ in _declared(cls).keys if field_name == found)

    @classmethod
    def check_value(cls, name: str, value: Any) -> None:
        """Validate the value of one key alone. Errors: ConfigError."""
        declaration = cls.declaration_of(name)
        if not declaration.name.endswith(FAMILY):
            _checked(declaration, cls.types()[declaration.name], value)

    @classmethod
    def _take(cls, values: dict[str, Any], field_name: str, name: str, value: Any) -> None:
        """Set the value of key `name`, which may be one of a family."""
        family = _family_of(name, _declared(cls).families)
        if not family:
            values[field_name] = value
            return
        rest = name.removeprefix(family[:-1])
        others = (each for each in values.get(field_name, ()) if each.partition("=")[0] != rest)
        values[field_name] = (*others, f"{rest}={text_of(value)}")

    def merged(self, overrides: Mapping[str, Any]) -> Self:
        """A copy with `overrides` (dotted or underscored names) applied."""
        current = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, value in overrides.items():
            self._take(current, self.field_of(name), name, value)
        return type(self)(**current)

    def to_mapping(self) -> dict[str, Any]:
        """All values by dotted name."""
        return {declaration.name: getattr(self, name) for declaration, name, _ in _declared(type(self)).keys}


def nearest_key(name: str, known: Iterable[str], *, is_keyword: bool = False) -> str:
    """A message suffix: "; did you mean …?" with the nearest dotted name of `known`, or empty.

    In the notation of `name`: with underscores if it has some, or if it is a keyword argument.
    """
    separator = "_" if is_keyword or ("_" in name and "." not in name) else "."
    hint = did_you_mean(name.replace("_", "."), known)
    return hint.replace(".", separator)


def text_of(value: Any) -> str:
    """The text form of a config value: lists with commas, booleans in lower case."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return ",".join(str(item) for item in value)
    return "" if value is None else str(value)


def _family_of(name: str, families: Iterable[str]) -> str:
    """The declared name, ending in `.*`, of the family that the key belongs to; empty if to none."""
    for family in families:
        if name.startswith(family[:-1]) and name != family:
            return family
    return ""


class _Declared(NamedTuple):
    """The declarations of a class, computed once; all but `keys` by dotted name."""

    keys: list[tuple[KeyDeclaration, str, Any]]  # with field name and type
    valid: list[Any]  # their defaults, as far as these are valid alone
    declarations: Mapping[str, KeyDeclaration]
    defaults: Mapping[str, Any]
    types: Mapping[str, Any]
    fields: Mapping[str, str]
    families: Sequence[str]  # the names that end in `.*`


_DECLARED: dict[type, _Declared] = {}
_NO_VALUE = object()


def _declared(cls: type[Config]) -> _Declared:
    if cls not in _DECLARED:
        hints = get_type_hints(cls)
        found = {f.metadata["key"]: f for f in fields(cls) if "key" in f.metadata}
        _DECLARED[cls] = _Declared(
            [(declaration, f.name, hints[f.name]) for declaration, f in found.items()],
            [_valid(declaration, hints[f.name], f.default) for declaration, f in found.items()],
            {declaration.name: declaration for declaration in found},
            {declaration.name: f.default for declaration, f in found.items()},
            {declaration.name: hints[f.name] for declaration, f in found.items()},
            {declaration.name: f.name for declaration, f in found.items()},
            [declaration.name for declaration in found if declaration.name.endswith(FAMILY)],
        )
    return _DECLARED[cls]


def _valid(declaration: KeyDeclaration, kind: Any, default: Any) -> Any:
    """The default if no value has to replace it, or a mark that is no value."""
    try:
        return default if _checked(declaration, kind, default) is default else _NO_VALUE
    except ConfigError:
        return _NO_VALUE


def _checked(declaration: KeyDeclaration, kind: Any, value: Any) -> Any:
    if declaration.is_sensitive:
        try:
            return _in_range(declaration, _typed(declaration, kind, value))
        except ConfigError:
            fault = f"the value of {declaration.name} is invalid; it is sensitive and not shown"
        raise ConfigError(fault)  # outside of the except block: the traceback must not contain the value
    return _in_range(declaration, _typed(declaration, kind, value))


def _in_range(declaration: KeyDeclaration, value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # "not >=", so that NaN, which compares false with everything, is rejected too.
        if declaration.low is not None and not value >= declaration.low:
            raise ConfigError(f"{declaration.name} must be at least {declaration.low}, not {value}")
        if declaration.high is not None and not value <= declaration.high:
            raise ConfigError(f"{declaration.name} must be at most {declaration.high}, not {value}")
    if declaration.choices is not None:
        chosen = value if isinstance(value, tuple) else (value,)
        for item in chosen:
            if item not in declaration.choices:
                allowed = ", ".join(declaration.choices)
                raise ConfigError(f"{declaration.name} must be one of {allowed}, not {item!r}")
    return value


def _typed(declaration: KeyDeclaration, kind: Any, value: Any) -> Any:
    try:
        if kind is bool or kind == bool | None:
            return None if kind is not bool and value in (None, "") else _to_bool(value)
        if kind is int or kind == int | None:  # None, and the empty text, if the key is optional
            return None if kind is not int and value in (None, "") else _to_int(value)
        if kind is float:
            return float(value)
        if kind is str or kind == str | None:
            return None if kind is not str and value in (None, "") else _to_text(value)
        if kind == tuple[str, ...]:
            return _to_list(value)
    except (ValueError, TypeError) as error:
        expected: dict[Any, str]
        expected = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
        expected |= {kind | None: text for kind, text in expected.items()}
        wanted = expected.get(kind, "a list")
        raise ConfigError(f"{declaration.name} must be {wanted}, not {value!r}") from error
    return value


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError(value)


def _to_int(value: Any) -> int:
    if isinstance(value, (bool, float)):
        raise TypeError(value)
    if isinstance(value, str) and not re.fullmatch(r"\s*[+-]?[0-9]+\s*", value):
        raise ValueError(value)
    return int(value)


def _to_list(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(_to_text(item) for item in value)


def _to_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
