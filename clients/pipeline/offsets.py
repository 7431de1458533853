"""Offsets of many partitions, and their JSON in Spark's form: {"topic": {"0": 23, "1": -2}}. Pure.

Offsets of streams also have topic ids: {"topic": {"0": 23}, "topic ids": {"topic": "0f…"}}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...protocol.errors import ConfigError
from ...protocol.model import TopicPartition, topic_name_fault

Offsets = dict[TopicPartition, int]

EARLIEST, LATEST = -2, -1  # in place of an offset
TOPIC_IDS = "topic ids"  # not a valid topic name
_MAX_OFFSET = 2**63 - 1
_MAX_PARTITION = 2**31 - 1


class Position(dict[TopicPartition, int]):
    """Exact offsets, with the ids of their topics where known: under another topic id the same offsets are
    different records. Equality compares offsets only."""

    def __init__(
        self,
        offsets: Mapping[TopicPartition, int] | None = None,
        topic_ids: Mapping[str, bytes] | None = None,
    ) -> None:
        super().__init__(offsets or {})
        ids, names = topic_ids or {}, sorted({tp.topic for tp in self})
        self.topic_ids = {name: ids[name] for name in names if name in ids}

    def renewed(self, topic_ids: Mapping[str, bytes]) -> list[str]:
        """Topics with other ids now: they were created again."""
        known = self.topic_ids
        return [name for name, found in topic_ids.items() if known.get(name, found) != found]


def position_of(offsets: Mapping[TopicPartition, int]) -> Position:
    """The position itself, or one without topic ids."""
    return offsets if isinstance(offsets, Position) else Position(offsets)


def position_to_json(position: Position) -> str:
    """Spark's form followed by the ids: the same text for equal positions."""
    facts = json.loads(offsets_to_json(position))
    ids = {name: found.hex() for name, found in position.topic_ids.items()}
    return json.dumps({**facts, **({TOPIC_IDS: ids} if ids else {})}, separators=(",", ":"))


def position_from_json(given: Any, name: str = "a position") -> Position:
    """The position of `position_to_json`, or of Spark's form alone, which may be empty. Errors: as
    `offsets_from_json`."""
    form = f'{name} must be JSON such as {{"topic": {{"0": 23}}}}'
    facts = _mapping(_loaded(given, form), form)
    ids = _mapping(facts.get(TOPIC_IDS, {}), f"{form}; at {TOPIC_IDS!r}")
    if not facts.keys() - {TOPIC_IDS}:
        return Position()
    try:
        topic_ids = {str(topic): bytes.fromhex(found) for topic, found in ids.items()}
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{form}: {TOPIC_IDS!r} is {str(ids)[:200]}") from error
    return Position(offsets_from_json(facts, name, low=0), topic_ids)


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Spark's form, topics and partitions sorted, without spaces."""
    topics: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(offsets.items()):
        topics.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return json.dumps(topics, separators=(",", ":"))


def offsets_from_json(given: Any, name: str = "offsets", *, low: int = EARLIEST) -> Offsets:
    """Offsets (or timestamps) from text in Spark's form, or from equivalent mappings. Topic ids are ignored.

    Errors: ConfigError with the option `name`, for other forms than {topic: {partition: number}} with
    integers >= `low`.
    """
    form = f'{name} must be JSON such as {{"topic": {{"0": 23, "1": -2}}}}'
    found: Offsets = {}
    for topic, partitions in _mapping(_loaded(given, form), form).items():
        if topic == TOPIC_IDS:
            continue
        _check_topic(topic, form)
        for number, value in _mapping(partitions, f"{form}; at topic {topic!r}").items():
            tp = TopicPartition(topic, _partition(number, f"{form}; at topic {topic!r}"))
            if tp in found:
                raise ConfigError(f"{name} has {tp} twice")
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= _MAX_OFFSET:
                raise ConfigError(f"{form}: {tp} has {value!r}, not an integer >= {low}")
            found[tp] = value
    if not found:
        raise ConfigError(f"{form}: it has no partition")
    return found


def partitions_from_json(given: Any, name: str) -> tuple[TopicPartition, ...]:
    """Partitions from {"topic": [0, 1]}, sorted. Errors: ConfigError with the option."""
    form = f'{name} must be JSON such as {{"topic": [0, 1]}}'
    found: set[TopicPartition] = set()
    for topic, numbers in _mapping(_loaded(given, form), form).items():
        _check_topic(topic, form)
        if not isinstance(numbers, list | tuple) or not numbers:
            raise ConfigError(f"{form}: topic {topic!r} has {numbers!r}, not a list of partitions")
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _MAX_PARTITION:
                raise ConfigError(f"{form}: {number!r} of topic {topic!r} is not a partition")
            found.add(TopicPartition(topic, number))
    if not found:
        raise ConfigError(f"{form}: it has no partition")
    return tuple(sorted(found))


def _loaded(given: Any, form: str) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{form}, not {given[:200]!r}: {error}") from error


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"duplicate key {next(name for name in names if names.count(name) > 1)!r}")
    return found


def _mapping(given: Any, form: str) -> Mapping[Any, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{form}, not {str(given)[:200]!r}")
    return given


def _check_topic(topic: Any, form: str) -> None:
    fault = topic_name_fault(topic) if isinstance(topic, str) else f"{topic!r} is not a topic"
    if fault is not None:
        raise ConfigError(f"{form}: {fault}")


def _partition(number: Any, form: str) -> int:
    if isinstance(number, str) and number.isascii() and number.isdigit() and len(number) <= 10:
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _MAX_PARTITION:
        raise ConfigError(f"{form}: {number!r} is not a partition")
    return number
