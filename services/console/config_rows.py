"""Configs of topics, nodes and groups as rows: the value, its source, and the value without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...clients.admin.admin_types import ConfigSource, ConfigType
from ...protocol.errors import ConfigError
from .decoding import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...clients.admin.admin_types import ConfigValue
    from .visit import Visit

_SOURCES = {
    ConfigSource.TOPIC: "topic",
    ConfigSource.BROKER: "node",
    ConfigSource.CLUSTER_DEFAULT: "all nodes",
    ConfigSource.STATIC: "start configuration",
    ConfigSource.BUILT_IN: "default",
    ConfigSource.CLIENT_METRICS: "subscription",
    ConfigSource.GROUP: "group",
}
_MOST_CHARACTERS = 10_000


class ConfigRow(NamedTuple):
    """One config. `inherited` is the value that it has without the setting here; None if it is unknown."""

    name: str
    value: str
    source: str
    is_set: bool
    inherited: str | None
    doc: str
    is_read_only: bool
    is_sensitive: bool
    is_boolean: bool


def config_rows(values: Mapping[str, ConfigValue]) -> list[ConfigRow]:
    """Rows by name, those that are set here first."""
    rows = [_row(value) for value in values.values()]
    return sorted(rows, key=lambda row: (not row.is_set, row.name))


def _row(value: ConfigValue) -> ConfigRow:
    is_set = not value.is_default and value.source not in (ConfigSource.STATIC, ConfigSource.BUILT_IN)
    rest = value.synonyms[1:] if is_set else ()
    return ConfigRow(
        value.name,
        "(hidden)" if value.is_sensitive else visible(value.value or ""),
        _SOURCES.get(value.source, value.source.name.lower()),
        is_set,
        rest[0].value if rest else None,
        value.doc,
        value.is_read_only,
        value.is_sensitive,
        value.type is ConfigType.BOOLEAN,
    )


def changes_of(visit: Visit) -> dict[str, str | None]:
    """The change that a form requests: a name with a value, or with `reset` none. Errors: ConfigError."""
    name = visit.field("name")
    if not name or len(name) > 200:
        raise ConfigError("name a config")
    value = visit.field("value")
    if len(value) > _MOST_CHARACTERS:
        raise ConfigError(f"a value has at most {_MOST_CHARACTERS} characters")
    return {name: None if visit.field("reset") else value}
