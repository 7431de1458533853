"""Arguments named as in `ray.data.read_kafka`, converted to options of clients/pipeline. Pure.

Source: Ray 2.60 ray/data/read_api.py, kafka_datasource.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ConfigError
from ..pipeline.filters import microseconds
from ..pipeline.offsets import EARLIEST, LATEST, offsets_from_json

if TYPE_CHECKING:
    from ...protocol.model import TopicPartition
    from ..pipeline.offsets import Offsets

# Options of Ray's tasks, passed to Ray unchanged.
OF_READ_TASKS = frozenset((
    "accelerator_type", "compute", "concurrency", "fallback_strategy", "label_selector", "max_calls",
    "memory", "num_cpus", "num_gpus", "override_num_blocks", "ray_remote_args", "resources", "runtime_env",
))  # fmt: skip
OF_WRITE_TASKS = frozenset(("concurrency", "ray_remote_args"))
_ISOLATION = ("kafka.isolation.level", "headrace.isolation.level")
_WORDS = {"earliest": EARLIEST, "latest": LATEST}


class Split(NamedTuple):
    """Options for Ray's tasks, and options for clients/pipeline."""

    of_tasks: dict[str, Any]
    options: dict[str, Any]


class Side(NamedTuple):
    """The start or end of a read. Either `options` are complete, or exact offsets of all partitions are
    needed: `each` for all, or those of `named` and the default for the others."""

    options: Mapping[str, Any]
    each: int | None = None
    named: Mapping[TopicPartition, int] | None = None

    @property
    def needs_partitions(self) -> bool:
        """Whether the partitions have to be requested, for `offsets`."""
        return self.each is not None or self.named is not None


def split(given: Mapping[str, Any], of_tasks: frozenset[str]) -> Split:
    """Split arguments by owner; None values are dropped."""
    real = {name: value for name, value in given.items() if value is not None}
    return Split(
        {name: value for name, value in real.items() if name in of_tasks},
        {name: value for name, value in real.items() if name not in of_tasks},
    )


def core_options(topics: Any, bootstrap: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of clients/pipeline except start and end. Records of aborted and open transactions are skipped
    unless the isolation level says otherwise, as in `read_kafka`.

    Errors: ConfigError for invalid arguments.
    """
    options = dict(given)
    if bootstrap is not None:
        options["bootstrap.servers"] = bootstrap
    if topics is not None:
        if not topics:
            raise ConfigError("topics is empty")
        options["subscribe"] = topics
    if options.pop("kafka_auth_config", None) is not None:
        raise ConfigError("kafka_auth_config is not supported: there is no authentication yet")
    timeout_ms = options.pop("timeout_ms", None)
    if timeout_ms is not None:
        options["kafkaConsumer.pollTimeoutMs"] = timeout_ms
    config = options.pop("consumer_config", None) or {}
    if not isinstance(config, Mapping):
        raise ConfigError(f"consumer_config must be a dict of consumer config, not {config!r}")
    for name, value in config.items():
        if name == "bootstrap.servers":
            if bootstrap is not None and value != bootstrap:
                raise ConfigError("bootstrap.servers is given twice: use bootstrap_servers")
            options[name] = value
        else:
            options[f"kafka.{name}"] = value
    if not any(name.lower() in _ISOLATION for name in options):
        options[_ISOLATION[0]] = "read_committed"
    return options


def start_side(given: Any) -> Side:
    """Parse `start_offset`. Errors: ConfigError."""
    if given == "latest":
        raise ConfigError("start_offset must not be 'latest': the read would be empty")
    side = _side("start_offset", "starting", given)
    if "startingTimestamp" in side.options:  # a time in the future gives an empty read
        side = side._replace(options={**side.options, "startingOffsetsByTimestampStrategy": "latest"})
    return side


def end_side(given: Any) -> Side:
    """Parse `end_offset`. Errors: ConfigError."""
    if given == "earliest":
        raise ConfigError("end_offset must not be 'earliest': the read would be empty")
    return _side("end_offset", "ending", given)


def check_order(start: Side, end: Side) -> None:
    """Errors: ConfigError for a start after its end."""
    pairs = [
        (start.each, end.each),
        (start.options.get("startingTimestamp"), end.options.get("endingTimestamp")),
    ]
    for first, last in pairs:
        if first is not None and last is not None and first > last:
            raise ConfigError(f"start_offset ({first}) is after end_offset ({last})")
    for tp, offset in (start.named or {}).items():
        last = (end.named or {}).get(tp, -1)
        if last >= 0 and offset > last:
            raise ConfigError(f"start_offset of {tp} ({offset}) is after its end_offset ({last})")


def offsets_of(side: Side, name: str, logs: Mapping[TopicPartition, int], *, is_end: bool) -> Offsets:
    """Offsets of all partitions, whose log end offsets are `logs`: a single number is limited to the end of
    each log. Errors: ConfigError for named partitions that are not read."""
    if side.each is not None:
        return {tp: min(side.each, end) if is_end else side.each for tp, end in logs.items()}
    named = side.named or {}
    unknown = sorted(set(named) - set(logs))
    if unknown:
        raise ConfigError(f"{name} has partitions that are not read: {', '.join(map(str, unknown[:10]))}")
    return {tp: named.get(tp, LATEST if is_end else EARLIEST) for tp in logs}


def _side(name: str, edge: str, given: Any) -> Side:
    if given is None:
        return Side({})
    if isinstance(given, str) and given in _WORDS:
        return Side({f"{edge}Offsets": given})
    if isinstance(given, datetime):
        moment = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
        # Timestamps are integer ms from 1970 on: the first one that is not before the given time.
        return Side({f"{edge}Timestamp": max(-(-microseconds(moment) // 1000), 0)})
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return Side({}, each=given)
    if isinstance(given, Mapping):
        return Side({}, named=_named(name, given))
    word = "earliest" if edge == "starting" else "latest"
    raise ConfigError(
        f"{name} must be an integer >= 0, a datetime, {word!r}, or"
        f" {{topic: {{partition: offset}}}}, not {given!r}"
    )


def _named(name: str, given: Mapping[Any, Any]) -> Offsets:
    wrong = "latest" if name == "start_offset" else "earliest"
    numbers = {}
    for topic, offsets in given.items():
        if not isinstance(offsets, Mapping):
            raise ConfigError(f"{name}: topic {topic!r} has {offsets!r}, not {{partition: offset}}")
        if wrong in offsets.values():
            raise ConfigError(f"{name} must not be {wrong!r}, at topic {topic!r}: the read would be empty")
        numbers[topic] = {
            number: _WORDS.get(offset, offset) if isinstance(offset, str) else offset
            for number, offset in offsets.items()
        }
    return offsets_from_json(numbers, name)
