"""Offsets of many partitions, and their JSON as Spark writes it: {"topic": {"0": 23, "1": -2}}. Pure.

Those of streams have the ids of topics beside them: {"topic": {"0": 23}, "topic ids": {"topic": "0f…"}}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...protocol.errors import ConfigError
from ...protocol.model import TopicPartition, topic_name_fault

Offsets = dict[TopicPartition, int]

EARLIEST, LATEST = -2, -1  # in place of an offset
TOPIC_IDS = "topic ids"  # no topic can have this name
_MAX_OFFSET = 2**63 - 1
_MAX_PARTITION = 2**31 - 1


class Position(dict[TopicPartition, int]):
    """Exact offsets, and the ids of their topics as far as they are known: under another id the same offsets
    mean other records. It is equal to whatever has the same offsets."""

    def __init__(
        self,
        offsets: Mapping[TopicPartition, int] | None = None,
        topic_ids: Mapping[str, bytes] | None = None,
    ) -> None:
        super().__init__(offsets or {})
        ids, names = topic_ids or {}, sorted({tp.topic for tp in self})
        self.topic_ids = {name: ids[name] for name in names if name in ids}

    def renewed(self, topic_ids: Mapping[str, bytes]) -> list[str]:
        """Topics that have other ids now: they were created again."""
        known = self.topic_ids
        return [name for name, found in topic_ids.items() if known.get(name, found) != found]


def position_of(offsets: Mapping[TopicPartition, int]) -> Position:
    """As it is, or of topics of which no ids are known."""
    return offsets if isinstance(offsets, Position) else Position(offsets)


def position_to_json(position: Position) -> str:
    """Spark's form with the ids after it: always the same text for the same position."""
    facts = json.loads(offsets_to_json(position))
    ids = {name: found.hex() for name, found in position.topic_ids.items()}
    return json.dumps({**facts, **({TOPIC_IDS: ids} if ids else {})}, separators=(",", ":"))


def position_from_json(given: Any, name: str = "a position") -> Position:
    """Of `position_to_json`, or of Spark's form alone, which may be empty. Errors: as `offsets_from_json`."""
    form = f'{name} takes JSON as {{"topic": {{"0": 23}}}}'
    facts = _mapping(_loaded(given, form), form)
    ids = _mapping(facts.get(TOPIC_IDS, {}), f"{form}; at {TOPIC_IDS!r}")
    if not facts.keys() - {TOPIC_IDS}:
        return Position()
    try:
        topic_ids = {str(topic): bytes.fromhex(found) for topic, found in ids.items()}
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{form}: at {TOPIC_IDS!r} stands {str(ids)[:200]}") from error
    return Position(offsets_from_json(facts, name, low=0), topic_ids)


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Spark's form, topics and partitions in order, without spaces."""
    topics: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(offsets.items()):
        topics.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return json.dumps(topics, separators=(",", ":"))


def offsets_from_json(given: Any, name: str = "offsets", *, low: int = EARLIEST) -> Offsets:
    """Offsets (or timestamps) out of text in Spark's form, or of what it says as mappings. The ids of a
    position are left out.

    Errors: ConfigError naming the option `name`, for anything that is not {topic: {partition: number}} with
    whole numbers from `low` on.
    """
    form = f'{name} takes JSON as {{"topic": {{"0": 23, "1": -2}}}}'
    found: Offsets = {}
    for topic, partitions in _mapping(_loaded(given, form), form).items():
        if topic == TOPIC_IDS:
            continue
        _check_topic(topic, form)
        for number, value in _mapping(partitions, f"{form}; at topic {topic!r}").items():
            tp = TopicPartition(topic, _partition(number, f"{form}; at topic {topic!r}"))
            if tp in found:
                raise ConfigError(f"{name} names {tp} twice")
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= _MAX_OFFSET:
                raise ConfigError(f"{form}: at {tp} stands {value!r}, not a whole number from {low} on")
            found[tp] = value
    if not found:
        raise ConfigError(f"{form}: it names no partition")
    return found


def partitions_from_json(given: Any, name: str) -> tuple[TopicPartition, ...]:
    """Partitions out of {"topic": [0, 1]}, sorted. Errors: ConfigError naming the option."""
    form = f'{name} takes JSON as {{"topic": [0, 1]}}'
    found: set[TopicPartition] = set()
    for topic, numbers in _mapping(_loaded(given, form), form).items():
        _check_topic(topic, form)
        if not isinstance(numbers, list | tuple) or not numbers:
            raise ConfigError(f"{form}: at topic {topic!r} stands {numbers!r}, not a list of partitions")
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _MAX_PARTITION:
                raise ConfigError(f"{form}: {number!r} at topic {topic!r} is no partition")
            found.add(TopicPartition(topic, number))
    if not found:
        raise ConfigError(f"{form}: it names no partition")
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
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found


def _mapping(given: Any, form: str) -> Mapping[Any, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{form}, not {str(given)[:200]!r}")
    return given


def _check_topic(topic: Any, form: str) -> None:
    fault = topic_name_fault(topic) if isinstance(topic, str) else f"{topic!r} is no topic"
    if fault is not None:
        raise ConfigError(f"{form}: {fault}")


def _partition(number: Any, form: str) -> int:
    if isinstance(number, str) and number.isascii() and number.isdigit() and len(number) <= 10:
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _MAX_PARTITION:
        raise ConfigError(f"{form}: {number!r} is no partition")
    return number
