"""Options of a read, named as in Spark's Kafka connector. Pure.

Source: Spark KafkaSourceProvider.scala.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ConfigError
from ...protocol.model import topic_name_fault
from ...runtime.config import MAX_INT, MAX_LONG, MINUTE, Config, key
from ..config import AdminConfig, ConnectionConfig, ConsumerConfig, resolve
from .offsets import EARLIEST, LATEST, Offsets, offsets_from_json, partitions_from_json
from .option_names import sort_options, time_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.model import TopicPartition

_PLANNED = "the plan has exact offsets"
_RESERVED = {
    "auto.offset.reset": f"{_PLANNED}: see startingOffsets",
    "enable.auto.commit": f"{_PLANNED}, and no group offsets are committed",
    "group.instance.id": f"{_PLANNED}, and no group is joined",
    "group.protocol": f"{_PLANNED}, and no group is joined",
    "interceptor.classes": "interceptors need records, not columns",
    "key.deserializer": "keys are bytes: convert the column",
    "value.deserializer": "values are bytes: convert the column",
}
_SCHEMAS = (ConnectionConfig, ConsumerConfig, AdminConfig)
# A range is read by one task, with more bytes per fetch than for a consumer of many partitions.
READ_DEFAULTS = {"max.partition.fetch.bytes": 4 << 20, "fetch.max.bytes": 16 << 20}

# Options that are not a single number or word; `_ReadConfig` has the others.
_STRUCTURED = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets",
    "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "maxTriggerDelay",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _ReadConfig(Config):
    starting_timestamp: int | None = key(
        "startingTimestamp",
        None,
        low=0,
        high=MAX_LONG,
        unit="ms",
        doc="Start at the first record from this time on.",
    )
    ending_timestamp: int | None = key(
        "endingTimestamp",
        None,
        low=0,
        high=MAX_LONG,
        unit="ms",
        doc="End at the first record from this time on.",
    )
    starting_strategy: str = key(
        "startingOffsetsByTimestampStrategy",
        "error",
        choices=("error", "latest"),
        doc="Partitions without a record from the start time on: error, or latest.",
    )
    fail_on_data_loss: bool = key("failOnDataLoss", True, doc="Fail if planned offsets are missing.")
    min_partitions: int | None = key(
        "minPartitions", None, low=1, high=MAX_INT, doc="Split large ranges into about this many tasks."
    )
    max_records_per_partition: int | None = key(
        "maxRecordsPerPartition", None, low=1, high=MAX_LONG, doc="Maximum offsets per range."
    )
    max_offsets_per_trigger: int | None = key(
        "maxOffsetsPerTrigger", None, low=1, high=MAX_LONG, doc="Maximum offsets per micro-batch."
    )
    min_offsets_per_trigger: int | None = key(
        "minOffsetsPerTrigger",
        None,
        low=1,
        high=MAX_LONG,
        doc="Wait for this many new offsets, up to maxTriggerDelay.",
    )
    max_bytes_per_trigger: int | None = key(
        "maxBytesPerTrigger", None, low=1, high=MAX_LONG, doc="Approximate log bytes per micro-batch."
    )
    include_headers: bool = key("includeHeaders", False, doc="Include the column headers.")
    group_id_prefix: str = key("groupIdPrefix", "spark-kafka-source", doc="Prefix of group names.")
    fetch_retries: int = key("fetchOffset.numRetries", 3, low=0, high=MAX_INT, doc="Retries of planning.")
    fetch_retry_ms: int = key(
        "fetchOffset.retryIntervalMs", 10, low=0, high=MAX_INT, unit="ms", doc="Interval of these retries."
    )
    poll_timeout_ms: int = key(
        "kafkaConsumer.pollTimeoutMs",
        2 * MINUTE,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="Fail a range without records for this long.",
    )


class Subscription(NamedTuple):
    """Exactly one of these is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


class Edge(NamedTuple):
    """The start or end of a read; one field besides `option` is set. `offset` is EARLIEST or LATEST for all
    partitions; the mappings have every partition; timestamps are ms."""

    option: str  # its source
    offset: int | None = None
    timestamp: int | None = None
    offsets: Offsets | None = None
    timestamps: Offsets | None = None


class Limits(NamedTuple):
    """Limits of one micro-batch; None for none. Bytes are estimated from average log sizes."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 15 * MINUTE
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Validated options of a read. Small, and can be pickled. `client`: client keys by dotted names."""

    bootstrap: str | None
    subscription: Subscription
    starting: Edge
    ending: Edge
    is_stream: bool
    strategy_latest: bool
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    limits: Limits
    include_headers: bool
    group_id: str | None
    group_id_prefix: str
    fetch_retries: int
    fetch_retry_ms: int
    poll_timeout_ms: int
    client: tuple[tuple[str, Any], ...] = field(repr=False)  # it may have a password

    @property
    def is_read_committed(self) -> bool:
        """Whether isolation.level is read_committed."""
        return dict(self.client).get("isolation.level") == "read_committed"


def read_options(given: Mapping[str, Any], *, stream: bool = False) -> ReadOptions:
    """Options of a read, as text or Python values, names case-insensitive; `stream` for a streaming read.

    Errors: ConfigError with the option and the valid values.
    """
    sorted_ = sort_options(given, [*_STRUCTURED, *_ReadConfig.keys()], _SCHEMAS, _RESERVED)
    parts = {name: sorted_.own.pop(name, None) for name in _STRUCTURED}
    config = _ReadConfig(**{_ReadConfig.field_of(name): value for name, value in sorted_.own.items()})
    client = {**READ_DEFAULTS, **sorted_.client}
    group_id = client.pop("group.id", None)
    if group_id is not None and (not isinstance(group_id, str) or not group_id.strip()):
        raise ConfigError(f"kafka.group.id must be a non-empty text, not {group_id!r}")
    for schema in _SCHEMAS:
        resolve(schema, client, {})  # validates values
    return ReadOptions(
        bootstrap=sorted_.bootstrap,
        subscription=_subscription(parts),
        starting=_starting(parts, config.starting_timestamp, stream),
        ending=_ending(parts, config.ending_timestamp, stream),
        is_stream=stream,
        strategy_latest=config.starting_strategy == "latest",
        fail_on_data_loss=config.fail_on_data_loss,
        min_partitions=config.min_partitions,
        max_records_per_partition=config.max_records_per_partition,
        limits=_limits(config, parts["maxTriggerDelay"]),
        include_headers=config.include_headers,
        group_id=group_id,
        group_id_prefix=config.group_id_prefix,
        fetch_retries=config.fetch_retries,
        fetch_retry_ms=config.fetch_retry_ms,
        poll_timeout_ms=config.poll_timeout_ms,
        client=tuple(sorted(client.items())),
    )


def _subscription(parts: Mapping[str, Any]) -> Subscription:
    ways = ("subscribe", "subscribePattern", "assign")
    chosen = [name for name in ways if parts[name] is not None]
    if len(chosen) != 1:
        raise ConfigError(f"give one of {', '.join(ways)}, not {' and '.join(chosen) or 'none'}")
    given = parts[chosen[0]]
    if parts["assign"] is not None:
        return Subscription(partitions=partitions_from_json(given, "assign"))
    if parts["subscribePattern"] is not None:
        return Subscription(pattern=_pattern(given))
    return Subscription(topics=_topics(given))


def _topics(given: Any) -> tuple[str, ...]:
    names = given.split(",") if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"subscribe must be topics separated by commas, not {given!r}")
    topics = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not topics:
        raise ConfigError(f"subscribe has no topic: {given!r}")
    for name in topics:
        fault = topic_name_fault(name)
        if fault is not None:
            raise ConfigError(f"subscribe: {fault}")
    return topics


def _pattern(given: Any) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ConfigError(f"subscribePattern must be a regular expression, not {given!r}")
    try:
        re.compile(given)
    except re.error as error:
        raise ConfigError(f"subscribePattern {given!r} is not a regular expression: {error}") from error
    return given


def _starting(parts: Mapping[str, Any], timestamp: int | None, stream: bool) -> Edge:
    edge = _time_edge("starting", parts, timestamp)
    if edge is None:
        edge = _offsets_edge("startingOffsets", parts["startingOffsets"], LATEST if stream else EARLIEST)
        if not stream:
            _forbid(edge, LATEST, "latest", "a batch that starts at the end is empty")
    return edge


def _ending(parts: Mapping[str, Any], timestamp: int | None, stream: bool) -> Edge:
    given = {"endingTimestamp": timestamp, **parts}
    for name in ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"):
        if stream and given[name] is not None:
            raise ConfigError(f"{name} is for batches: a stream has no end")
    edge = _time_edge("ending", parts, timestamp)
    if edge is None:
        edge = _offsets_edge("endingOffsets", parts["endingOffsets"], LATEST)
        _forbid(edge, EARLIEST, "earliest", "a batch that ends at the start is empty")
    return edge


def _time_edge(side: str, parts: Mapping[str, Any], timestamp: int | None) -> Edge | None:
    """A timestamp for all partitions takes precedence over one per partition, and both over offsets."""
    if timestamp is not None:
        return Edge(f"{side}Timestamp", timestamp=timestamp)
    name = f"{side}OffsetsByTimestamp"
    if parts[name] is None:
        return None
    return Edge(name, timestamps=offsets_from_json(parts[name], name, low=0))


def _offsets_edge(name: str, given: Any, default: int) -> Edge:
    if given is None:
        return Edge(name, offset=default)
    if isinstance(given, str) and given.strip().lower() in ("earliest", "latest"):
        return Edge(name, offset=EARLIEST if given.strip().lower() == "earliest" else LATEST)
    if isinstance(given, str) and not given.lstrip().startswith("{"):
        raise ConfigError(
            f'{name} must be earliest, latest or JSON as {{"topic": {{"0": 23}}}}, not {given!r}'
        )
    return Edge(name, offsets=offsets_from_json(given, name))


def _forbid(edge: Edge, offset: int, word: str, why: str) -> None:
    if edge.offset == offset:
        raise ConfigError(f"{edge.option} must not be {word}: {why}")
    for tp, value in (edge.offsets or {}).items():
        if value == offset:
            raise ConfigError(f"{edge.option} must not be {offset} ({word}) for {tp}: {why}")


def _limits(config: _ReadConfig, delay: Any) -> Limits:
    most, least = config.max_offsets_per_trigger, config.min_offsets_per_trigger
    if most is not None and least is not None and least > most:
        raise ConfigError(f"minOffsetsPerTrigger ({least}) must not be above maxOffsetsPerTrigger ({most})")
    delay_ms = time_ms("maxTriggerDelay", "15m" if delay is None else delay)
    return Limits(most, least, delay_ms, config.max_bytes_per_trigger)
