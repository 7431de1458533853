"""Committed offsets equal those of a naive reader of the log, for any mix of plain and transactional commits,
deletions and markers; also after compaction."""

from typing import Any

from group_rig import Entry, GroupRig
from headrace.coordinators.runtime.ports import NO_PRODUCER, NO_PRODUCER_ID, ProducerIdAndEpoch
from headrace.protocol.messages import groups as m
from headrace.protocol.messages import registry
from headrace.protocol.records.coordinator_records import decode_record
from headrace.protocol.records.group_records import OffsetCommitKey
from hypothesis import given, settings
from hypothesis import strategies as st

GROUPS, TOPICS, PRODUCERS = st.sampled_from("gh"), st.sampled_from("tu"), st.sampled_from([8, 9])
STEPS = st.one_of(
    st.tuples(st.just("commit"), GROUPS, TOPICS),
    st.tuples(st.just("txn"), GROUPS, TOPICS, PRODUCERS),
    st.tuples(st.just("end"), PRODUCERS, st.booleans()),
    st.tuples(st.just("delete"), GROUPS, TOPICS),
    st.tuples(st.just("delete group"), GROUPS),
    st.tuples(st.just("load")),
)
Offsets = dict[tuple[str, str], int]


def naive(log: list[Entry]) -> Offsets:
    """A record counts at its own offset if its transaction commits; the last record or tombstone wins."""
    committed = {
        place
        for end, marker in enumerate(log)
        if marker.data is None and marker.is_commit
        for place in range(end)
        if log[place].producer.producer_id == marker.producer.producer_id
        and not any(
            each.data is None and each.producer.producer_id == marker.producer.producer_id
            for each in log[place:end]
        )
    }
    found: Offsets = {}
    for place, entry in enumerate(log):
        if entry.data is None or (entry.producer != NO_PRODUCER and place not in committed):
            continue
        record = decode_record(*entry.data)
        assert record is not None
        key, value = record
        if isinstance(key, OffsetCommitKey):
            if value is None:
                found.pop((key.group, key.topic), None)
            else:
                found[key.group, key.topic] = value.offset
    return found


def compacted(log: list[Entry]) -> list[Entry]:
    """The compacted log: the last record of each key, without aborted transactions, and the markers. Every
    transaction has ended."""
    aborted: set[int] = set()
    open_places: dict[int, list[int]] = {}
    for place, entry in enumerate(log):
        if entry.data is None:
            ended = open_places.pop(entry.producer.producer_id, [])
            aborted.update(() if entry.is_commit else ended)
        elif entry.producer.producer_id != NO_PRODUCER_ID:
            open_places.setdefault(entry.producer.producer_id, []).append(place)
    last: dict[bytes, int] = {
        entry.data[0]: place
        for place, entry in enumerate(log)
        if entry.data is not None and place not in aborted
    }
    kept = set(last.values())
    empty = Entry(NO_PRODUCER, None)
    return [entry if entry.data is None or place in kept else empty for place, entry in enumerate(log)]


def shown(rig: GroupRig) -> Offsets:
    return {(group, topic): at for group in "gh" for (topic, _), at in rig.offsets(group).items()}


def take(rig: GroupRig, step: tuple[Any, ...], number: int) -> None:
    match step:
        case ("commit", group, topic):
            rig.commit_offset(number, group=group, tp=(topic, 0))
        case ("txn", group, topic, producer):
            rig.txn_commit_offset(number, ProducerIdAndEpoch(producer, 0), group, tp=(topic, 0))
        case ("end", producer, is_commit):
            rig.end_transaction(ProducerIdAndEpoch(producer, 0), is_commit=is_commit)
        case ("delete", group, topic):
            topics = (m.TopicNamePartitions(topic, (0,)),)
            rig.request(registry.OFFSET_DELETE, m.OffsetDeleteRequest(group, topics))
        case ("delete group", group):
            rig.request(registry.DELETE_GROUPS, m.DeleteGroupsRequest((group,)))
        case _:
            rig.reload()


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=25))
def test_offsets_are_those_of_the_log(steps: list[tuple[Any, ...]]) -> None:
    """At every step, and after compaction. Offsets with a pending transactional commit are not stable."""
    rig = GroupRig(transaction_partition_verification_enable=False)
    for number, step in enumerate(steps):
        take(rig, step, number)
        assert shown(rig) == naive(rig.log)
    for producer in (8, 9):
        rig.end_transaction(ProducerIdAndEpoch(producer, 0), is_commit=True)
    assert not any(code < -1 for group in "gh" for code in rig.offsets(group, require_stable=True).values())
    before = shown(rig)
    assert before == naive(rig.log)
    rig.log = compacted(rig.log)
    rig.reload()
    assert shown(rig) == before
