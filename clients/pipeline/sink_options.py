"""Where and how is written: options by the names of Spark's Kafka sink, checked columns. Pure."""

from __future__ import annotations

from dataclasses import dataclass
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
    "transactional.id": "each task has one of its own",
    "enable.idempotence": "what is written is written once",
    "key.serializer": "keys are bytes or text",
    "value.serializer": "values are bytes or text",
    "interceptor.classes": "interceptors see records, not columns",
}
_SCHEMAS = (ConnectionConfig, ProducerConfig, AdminConfig)
# From the first row of a task to the driver's commit; as long as a cluster allows by default.
_DEFAULTS = {"transaction.timeout.ms": 15 * MINUTE}


@dataclass(frozen=True, kw_only=True)
class _WriteConfig(Config):
    topic: str | None = key("topic", None, doc="Where all rows go; they have no column for it then.")
    fail_on_data_loss: bool = key("failOnDataLoss", True, doc="A batch that is lost in part is an error.")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Checked options of a write. Small, and can be pickled. `client` are keys of clients by dotted names."""

    bootstrap: str | None
    topic: str | None
    fail_on_data_loss: bool
    client: tuple[tuple[str, Any], ...]


def write_options(given: Mapping[str, Any]) -> WriteOptions:
    """Options of a write, as text or as Python values, names in any case.

    Errors: ConfigError naming the option and what is allowed.
    """
    found = sort_options(given, _WriteConfig.keys(), _SCHEMAS, _RESERVED)
    config = _WriteConfig(**{_WriteConfig.field_of(name): value for name, value in found.own.items()})
    client = {**_DEFAULTS, **found.client}
    for schema in _SCHEMAS:
        resolve(schema, client, {})  # a bad value fails here
    if str(client.get("acks", "all")) not in ("all", "-1"):
        raise ConfigError("kafka.acks must be all: what is written is acknowledged by all replicas in sync")
    fault = None if config.topic is None else topic_name_fault(config.topic)
    if fault is not None:
        raise ConfigError(f"topic: {fault}")
    return WriteOptions(
        found.bootstrap, config.topic, config.fail_on_data_loss, tuple(sorted(client.items()))
    )


def checked_names(table: Any, topic: str | None) -> Names:
    """The columns of an Arrow table that become records. Errors: ValueError for one that is missing or not
    known, TypeError for one of another type, each naming what is allowed."""
    names = table.schema.names
    others = ", ".join(name for name in COLUMNS if name != "value")
    allowed = f"a table to write has value and, if wanted, {others}"
    for name in names:
        if name not in COLUMNS:
            raise ValueError(f"column {name!r} is not known: {allowed}")
        if names.count(name) > 1:
            raise ValueError(f"there are {names.count(name)} columns {name!r}")
    if "value" not in names:
        raise ValueError(f"there is no column 'value', only {names}: {allowed}")
    if topic is None:
        if "topic" not in names:
            raise ValueError("where to write: there is neither an option topic nor a column 'topic'")
        kind = table.schema.field("topic").type
        if not is_text(kind):
            raise TypeError(f"column 'topic' has type {kind}: topics are text")
    for name in ("key", "value"):
        if name in names and not is_binary(kind := table.schema.field(name).type):
            raise TypeError(
                f"column {name!r} has type {kind}: keys and values are binary or text. Cast it"
                ' (.cast("string") in Spark, .cast(pa.string()) in Arrow, .astype(str) in pandas), or encode'
                " it first, as JSON for instance"
            )
    found = Names(*(name if name in names else None for name in Names._fields))
    Table(table.slice(0, 0), found, key_serde=False, value_serde=False)
    return found
