"""Options of a write, named as in Spark's Kafka sink, and the validation of columns. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError
from ...protocol.model import topic_name_fault
from ...runtime.config import MINUTE, Config, key
from ..arrow.tables import Names, Table, is_binary, is_text
from ..config import AdminConfig, ConnectionConfig, resolve
from ..producer_config import ProducerConfig
from .option_names import sort_options

if TYPE_CHECKING:
    from collections.abc import Mapping

COLUMNS = ("key", "value", "topic", "partition", "headers", "timestamp")
_RESERVED = {
    "transactional.id": "each task uses its own",
    "enable.idempotence": "writes are always idempotent",
    "key.serializer": "keys must be bytes or text",
    "value.serializer": "values must be bytes or text",
    "interceptor.classes": "interceptors need records, not columns",
}
_SCHEMAS = (ConnectionConfig, ProducerConfig, AdminConfig)
# From a task's first row to the driver's commit; the longest timeout that a cluster allows by default.
_DEFAULTS = {"transaction.timeout.ms": 15 * MINUTE}


@dataclass(frozen=True, kw_only=True)
class _WriteConfig(Config):
    topic: str | None = key("topic", None, doc="The topic of all rows, instead of a column.")
    fail_on_data_loss: bool = key("failOnDataLoss", True, doc="Fail if a decided batch is partly lost.")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Validated options of a write. Small, and can be pickled. `client`: client keys by dotted names."""

    bootstrap: str | None
    topic: str | None
    fail_on_data_loss: bool
    client: tuple[tuple[str, Any], ...] = field(repr=False)  # it may have a password


def write_options(given: Mapping[str, Any]) -> WriteOptions:
    """Options of a write, as text or Python values, names case-insensitive.

    Errors: ConfigError with the option and the valid values.
    """
    found = sort_options(given, _WriteConfig.keys(), _SCHEMAS, _RESERVED)
    config = _WriteConfig(**{_WriteConfig.field_of(name): value for name, value in found.own.items()})
    client = {**_DEFAULTS, **found.client}
    for schema in _SCHEMAS:
        resolve(schema, client, {})  # validates values
    if str(client.get("acks", "all")) not in ("all", "-1"):
        raise ConfigError("kafka.acks must be all")
    fault = None if config.topic is None else topic_name_fault(config.topic)
    if fault is not None:
        raise ConfigError(f"topic: {fault}")
    return WriteOptions(
        found.bootstrap, config.topic, config.fail_on_data_loss, tuple(sorted(client.items()))
    )


def checked_names(table: Any, topic: str | None) -> Names:
    """The columns of an Arrow table that become records. Errors: ValueError for a missing or unknown column,
    TypeError for an invalid type, with the valid ones."""
    names = table.schema.names
    others = ", ".join(name for name in COLUMNS if name != "value")
    allowed = f"the columns are value and, optionally, {others}"
    for name in names:
        if name not in COLUMNS:
            raise ValueError(f"unknown column {name!r}: {allowed}")
        if names.count(name) > 1:
            raise ValueError(f"there are {names.count(name)} columns {name!r}")
    if "value" not in names:
        raise ValueError(f"no column 'value' in {names}: {allowed}")
    if topic is None:
        if "topic" not in names:
            raise ValueError("no topic: give the option topic or a column 'topic'")
        kind = table.schema.field("topic").type
        if not is_text(kind):
            raise TypeError(f"column 'topic' has type {kind}: topics must be text")
    for name in ("key", "value"):
        if name in names and not is_binary(kind := table.schema.field(name).type):
            raise TypeError(
                f"column {name!r} has type {kind}: keys and values must be binary or text. Cast it"
                ' (.cast("string") in Spark, .cast(pa.string()) in Arrow, .astype(str) in pandas), or encode'
                " it first, as JSON for instance"
            )
    found = Names(*(name if name in names else None for name in Names._fields))
    Table(table.slice(0, 0), found, key_serde=False, value_serde=False)
    return found
