"""From options and what the cluster says to exact ranges. Pure: `planner_io` asks.

In order: which partitions there are (`places_of`, `subscribed`), which timestamps to look up (`times`), exact
offsets (`settled`), ranges between them (`plan_batch`, `plan_between`).
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
    """What is known of a partition: its topic's id, who leads it and since which epoch, where that is."""

    topic_id: bytes
    leader: int
    leader_epoch: int
    hosts: tuple[str, ...]


_OUR_TOPICS = (COMMITS_TOPIC, PLANS_TOPIC)
Places = dict[TopicPartition, Place]
Narrow = Callable[[OffsetRange], OffsetRange | None]


class Logs(NamedTuple):
    """Where the logs of some partitions start and end for readers."""

    earliest: Offsets
    latest: Offsets


def places_of(answer: MetadataResponse, *, with_internal: bool = True) -> Places:
    """All partitions that an answer speaks of; topics with errors have none."""
    hosts = {node.node_id: node.host for node in answer.nodes}
    found: Places = {}
    for topic in answer.topics:
        if topic.error_code or (topic.is_internal and not with_internal):
            continue
        for part in topic.partitions:
            # the leader's host first, then those of the replicas in sync
            near = dict.fromkeys(hosts[node] for node in (part.leader, *part.isr) if node in hosts)
            found[TopicPartition(topic.name, part.partition)] = Place(
                topic.topic_id, part.leader, part.leader_epoch, tuple(near)
            )
    return found


def ids_of(places: Places) -> dict[str, bytes]:
    """Of their topics."""
    return {tp.topic: at.topic_id for tp, at in places.items()}


def agrees(places: Places, expected: Mapping[TopicPartition, int]) -> bool:
    """Whether an answer has the partitions of a position, in topics that have the ids that are known."""
    known = position_of(expected).topic_ids
    return expected.keys() <= places.keys() and all(
        known.get(tp.topic, places[tp].topic_id) == places[tp].topic_id for tp in expected
    )


def refuse_another_topic(loss: Loss) -> None:
    """For `on_loss` of a stream's tasks: the node that the driver asked did not know yet that the topic was
    created again. To go on would pass the rows of the new one. Errors: DataLossError."""
    if loss.reason == CREATED_AGAIN:
        raise DataLossError(f"{loss}. The next plan reads the new one")


def subscribed(
    subscription: Subscription, places: Places, *, is_lax: bool = False, known: Iterable[str] = ()
) -> Places:
    """What is to be read of the partitions that there are; patterns match whole names, as in Java.

    Errors: UnknownTopicOrPartitionError for what was named and is not there, unless `is_lax`; for a topic it
    names the nearest one of those that are `known`.
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
            raise UnknownTopicOrPartitionError(f"assign names what there is not: {_names(missing)}")
        return {tp: places[tp] for tp in subscription.partitions if tp in places}
    return {tp: at for tp, at in places.items() if tp.topic in subscription.topics}


def times(edge: Edge, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The timestamps to look up for an edge. Errors: ConfigError when it names other partitions."""
    wanted = sorted(partitions)
    if edge.timestamp is not None:
        return dict.fromkeys(wanted, edge.timestamp)
    named = edge.timestamps if edge.timestamps is not None else edge.offsets
    if named is None:
        return {}
    missing, unknown = sorted(set(wanted) - set(named)), sorted(set(named) - set(wanted))
    if missing or unknown:
        more = "; -2 stands for earliest, -1 for latest" if edge.offsets is not None else ""
        raise ConfigError(
            f"{edge.option} must name exactly the partitions that are read{more}"
            + (f"; it lacks {_names(missing)}" if missing else "")
            + (f"; not read are {_names(unknown)}" if unknown else "")
        )
    return dict(edge.timestamps or {})


def settled(edge: Edge, by_time: Mapping[TopicPartition, int], logs: Logs, *, or_latest: bool) -> Offsets:
    """Exact offsets of an edge for the partitions of `logs`: `by_time` are those of its `times`, -1 where no
    record is as new. Errors: ConfigError for such a one, unless `or_latest`."""
    found: Offsets = {}
    for tp in sorted(logs.latest):
        if tp in by_time:
            offset = by_time[tp]
            if offset == NO_OFFSET and not or_latest:
                raise ConfigError(
                    f"{edge.option}: {tp} has no record as new as that;"
                    " startingOffsetsByTimestampStrategy=latest starts at its end then"
                )
        else:
            offset = edge.offsets[tp] if edge.offsets is not None else edge.offset  # type: ignore[assignment]
        # a timestamp without a record leads to the end, as LATEST does
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
    """The ranges of a batch. Errors: DataLossError for offsets that the logs do not have, under
    failOnDataLoss."""
    # A start behind its end, both of which the log has, is a partition with nothing to read.
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
    """Ranges from `starts` to `ends`, and of these what `narrow` leaves. Partitions that came later than the
    starts begin at their first offset, and so do those of a topic that was created again between the two;
    what retention took, deleted partitions, logs that end too early, and what was in a topic before it was
    created again are losses. `logs` are those of `places`; a partition that is not among these is deleted.

    Errors: DataLossError for losses, under failOnDataLoss.
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
        if after.get(tp.topic, at.topic_id) != at.topic_id:  # its end is of a log that is no more
            losses.append(Loss(tp, first, last, CREATED_AGAIN))
            continue
        if start is not None and before.get(tp.topic, at.topic_id) != at.topic_id:
            losses.append(Loss(tp, start, start, CREATED_AGAIN))
            start = None
        if start is None:
            start, exact[tp] = 0, earliest
        if start > min(end, latest):  # it grew again since, perhaps with other records
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
    """What filters leave of a range: `by_time` are the first offsets that are as new as they want, -1 where
    nothing is."""

    def narrow(whole: OffsetRange) -> OffsetRange | None:
        first = by_time.get(whole.tp, whole.start)
        return None if first == NO_OFFSET else filters.cut(whole._replace(start=max(first, whole.start)))

    return narrow


def loss_error(losses: Iterable[Loss]) -> DataLossError:
    """What to raise for losses under failOnDataLoss."""
    return DataLossError("; ".join(map(str, losses)) + ". To read what is left, set failOnDataLoss to false")


def _topics_of(subscription: Subscription) -> list[str]:
    """The topics that it names, in order."""
    return list(dict.fromkeys([*subscription.topics, *(tp.topic for tp in subscription.partitions)]))


def _names(tps: Iterable[TopicPartition]) -> str:
    names = [str(tp) for tp in tps]
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
