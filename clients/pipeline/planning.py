"""Computes exact ranges from options and cluster metadata. Pure: `planner_io` sends the requests.

In order: partitions (`places_of`, `subscribed`), timestamps to look up (`times`), exact offsets (`settled`),
ranges between them (`plan_batch`, `plan_between`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ConfigError, DataLossError, UnknownTopicOrPartitionError
from ...protocol.model import NO_OFFSET, TopicPartition
from ..topic_names import no_topic
from .commits import COMMITS_TOPIC
from .offsets import EARLIEST, LATEST, Offsets, Position, position_of
from .plans import PLANS_TOPIC
from .ranges import CREATED_AGAIN, Loss, OffsetRange, Plan
from .splitting import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.messages.data import MetadataResponse
    from .filters import Filters
    from .source_options import Edge, ReadOptions, Subscription


class Place(NamedTuple):
    """A partition: topic id, leader, leader epoch, hosts of its replicas."""

    topic_id: bytes
    leader: int
    leader_epoch: int
    hosts: tuple[str, ...]


_OUR_TOPICS = (COMMITS_TOPIC, PLANS_TOPIC)
Places = dict[TopicPartition, Place]
Narrow = Callable[[OffsetRange], OffsetRange | None]


class Logs(NamedTuple):
    """Log bounds of partitions, as visible to readers."""

    earliest: Offsets
    latest: Offsets


def places_of(answer: MetadataResponse, *, with_internal: bool = True) -> Places:
    """All partitions of a response; topics with errors have none."""
    hosts = {node.node_id: node.host for node in answer.nodes}
    found: Places = {}
    for topic in answer.topics:
        if topic.error_code or (topic.is_internal and not with_internal):
            continue
        for part in topic.partitions:
            # the leader's host first, then those of in-sync replicas
            near = dict.fromkeys(hosts[node] for node in (part.leader, *part.isr) if node in hosts)
            found[TopicPartition(topic.name, part.partition)] = Place(
                topic.topic_id, part.leader, part.leader_epoch, tuple(near)
            )
    return found


def ids_of(places: Places) -> dict[str, bytes]:
    """The topic ids of the places."""
    return {tp.topic: at.topic_id for tp, at in places.items()}


def agrees(places: Places, expected: Mapping[TopicPartition, int]) -> bool:
    """Whether a response has the partitions of a position, with the known topic ids."""
    known = position_of(expected).topic_ids
    return expected.keys() <= places.keys() and all(
        known.get(tp.topic, places[tp].topic_id) == places[tp].topic_id for tp in expected
    )


def refuse_another_topic(loss: Loss) -> None:
    """`on_loss` of a stream's tasks: the node that the driver asked did not know yet that the topic was
    created again. Continuing would skip the rows of the new one. Errors: DataLossError."""
    if loss.reason == CREATED_AGAIN:
        raise DataLossError(f"{loss}. The next plan reads the new topic")


def subscribed(
    subscription: Subscription, places: Places, *, is_lax: bool = False, known: Iterable[str] = ()
) -> Places:
    """The existing partitions of a subscription; patterns match whole names, as in Java.

    Errors: UnknownTopicOrPartitionError for missing named ones, unless `is_lax`, with the nearest topic of
    `known`.
    """
    topics = {tp.topic for tp in places}
    unknown = [name for name in _topics_of(subscription) if name not in topics]
    if unknown and not is_lax:
        raise UnknownTopicOrPartitionError("; ".join(no_topic(name, known) for name in unknown))
    if subscription.pattern is not None:
        matches = re.compile(subscription.pattern).fullmatch
        return {tp: at for tp, at in places.items() if tp.topic not in _OUR_TOPICS and matches(tp.topic)}
    if subscription.partitions:
        missing = [tp for tp in subscription.partitions if tp not in places]
        if missing and not is_lax:
            raise UnknownTopicOrPartitionError(f"assign has unknown partitions: {_names(missing)}")
        return {tp: places[tp] for tp in subscription.partitions if tp in places}
    return {tp: at for tp, at in places.items() if tp.topic in subscription.topics}


def times(edge: Edge, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The timestamps to look up for an edge. Errors: ConfigError if its partitions differ."""
    wanted = sorted(partitions)
    if edge.timestamp is not None:
        return dict.fromkeys(wanted, edge.timestamp)
    named = edge.timestamps if edge.timestamps is not None else edge.offsets
    if named is None:
        return {}
    missing, unknown = sorted(set(wanted) - set(named)), sorted(set(named) - set(wanted))
    if missing or unknown:
        more = "; -2 means earliest, -1 latest" if edge.offsets is not None else ""
        raise ConfigError(
            f"{edge.option} must have exactly the partitions that are read{more}"
            + (f"; missing: {_names(missing)}" if missing else "")
            + (f"; not read: {_names(unknown)}" if unknown else "")
        )
    return dict(edge.timestamps or {})


def settled(edge: Edge, by_time: Mapping[TopicPartition, int], logs: Logs, *, or_latest: bool) -> Offsets:
    """Exact offsets of an edge for the partitions of `logs`; `by_time` are those of its `times`, -1 without a
    record from that time on. Errors: ConfigError for -1, unless `or_latest`."""
    found: Offsets = {}
    for tp in sorted(logs.latest):
        if tp in by_time:
            offset = by_time[tp]
            if offset == NO_OFFSET and not or_latest:
                raise ConfigError(
                    f"{edge.option}: {tp} has no record from that time on;"
                    " startingOffsetsByTimestampStrategy=latest starts at its end instead"
                )
        else:
            offset = edge.offsets[tp] if edge.offsets is not None else edge.offset  # type: ignore[assignment]
        # a timestamp without a record means the end, like LATEST
        found[tp] = {EARLIEST: logs.earliest[tp], LATEST: logs.latest[tp]}.get(offset, offset)
    return found


def plan_batch(
    options: ReadOptions,
    starts: Offsets,
    ends: Offsets,
    logs: Logs,
    places: Places,
    narrow: Narrow | None = None,
) -> Plan:
    """The ranges of a batch. Errors: DataLossError for offsets outside of the logs, with failOnDataLoss."""
    # A start after the end, both within the log, means an empty partition range.
    starts = {tp: start if start > logs.latest[tp] else min(start, ends[tp]) for tp, start in starts.items()}
    return plan_between(options, starts, ends, logs, places, narrow)


def plan_between(
    options: ReadOptions,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    logs: Logs,
    places: Places,
    narrow: Narrow | None = None,
) -> Plan:
    """Ranges from `starts` to `ends`, cut by `narrow`. Partitions that are not in `starts` begin at their
    first offset, and so do those of a topic that was created again in between; offsets deleted by retention,
    deleted partitions, logs that end too early, and records of a topic before it was created again are
    losses. `logs` are those of `places`; a partition without place is deleted.

    Errors: DataLossError for losses, with failOnDataLoss.
    """
    losses: list[Loss] = []
    before, after = position_of(starts).topic_ids, position_of(ends).topic_ids
    exact, ranges = dict(starts), []
    for tp in sorted({*starts, *ends}):
        start, end = starts.get(tp), ends.get(tp)
        first, last = start or 0, start or 0 if end is None else end
        if tp not in places or end is None:
            losses.append(Loss(tp, first, last, "the partition is deleted"))
            continue
        earliest, latest, at = logs.earliest[tp], logs.latest[tp], places[tp]
        if after.get(tp.topic, at.topic_id) != at.topic_id:  # its end belongs to a log that no longer exists
            losses.append(Loss(tp, first, last, CREATED_AGAIN))
            continue
        if start is not None and before.get(tp.topic, at.topic_id) != at.topic_id:
            losses.append(Loss(tp, start, start, CREATED_AGAIN))
            start = None
        if start is None:
            start, exact[tp] = 0, earliest
        if start > min(end, latest):  # the log has grown again since, possibly with other records
            losses.append(Loss(tp, start, end, f"its log ends at {min(end, latest)} now"))
            continue
        if end > latest:
            losses.append(Loss(tp, latest, end, f"its log ends at {latest} for readers"))
        first, last = max(start, earliest), min(end, latest)
        if first > start:
            losses.append(Loss(tp, start, min(first, end), f"its log starts at {earliest} now"))
        ranges.append(OffsetRange(*tp, first, last, at.topic_id, at.leader_epoch, at.leader, at.hosts))
    if losses and options.fail_on_data_loss:
        raise loss_error(losses)
    if narrow is not None:
        ranges = [some for each in ranges if (some := narrow(each)) is not None]
    cut = split(ranges, options.min_partitions, options.max_records_per_partition)
    ids = {**ids_of(places), **after}
    return Plan(tuple(cut), Position(exact, ids), Position(ends, ids), tuple(losses))


def narrowing(filters: Filters, by_time: Mapping[TopicPartition, int]) -> Narrow:
    """The part of a range that filters select; `by_time`: the first offsets at or after their lower
    timestamp, -1 without such a record."""

    def narrow(whole: OffsetRange) -> OffsetRange | None:
        first = by_time.get(whole.tp, whole.start)
        return None if first == NO_OFFSET else filters.cut(whole._replace(start=max(first, whole.start)))

    return narrow


def loss_error(losses: Iterable[Loss]) -> DataLossError:
    """The error for losses with failOnDataLoss."""
    return DataLossError(
        "; ".join(map(str, losses)) + ". To read the remaining records, set failOnDataLoss to false"
    )


def _topics_of(subscription: Subscription) -> list[str]:
    """The named topics, in order."""
    return list(dict.fromkeys([*subscription.topics, *(tp.topic for tp in subscription.partitions)]))


def _names(tps: Iterable[TopicPartition]) -> str:
    names = [str(tp) for tp in tps]
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
