"""Exact lag in the admin client, on a fake cluster: requests by node, and the result."""

from typing import Any

import pytest
from fake_admin_cluster import FakeAdminCluster
from headrace.clients.admin.lag_io import batches_of
from headrace.clients.admin.lag_types import ConsumerLag
from headrace.protocol import errors
from headrace.protocol.consumer_protocol import Assignment, encode_assignment
from headrace.protocol.messages.lag import MAX_COUNTED_OFFSETS
from headrace.protocol.model import TopicPartition

pytestmark = pytest.mark.fake_cluster(kind=FakeAdminCluster)

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def times(fake: FakeAdminCluster) -> None:
    """Three records in t-0, of second 1."""
    fake.create("t", 2)
    fake.put("t", 0, b"a", b"b", b"c", timestamp=1_000)


async def test_lag_of_each_partition_with_a_commit(fake: FakeAdminCluster, cluster: Any) -> None:
    """In records and in seconds; the sum and the maximum for the group."""
    times(fake)
    fake.commit("g", "t", 0, 1)
    fake.commit("g", "t", 1, 0)
    found = (await cluster.admin().consumer_group_lag("g"))["g"]
    assert found.partitions == {
        FIRST: ConsumerLag(1, 0, 3, 2, 9.0),
        SECOND: ConsumerLag(0, 0, 0, 0, 0.0),
    }
    assert (found.records, found.seconds) == (2, 9.0)


async def test_clock_of_a_producer_may_be_ahead(fake: FakeAdminCluster, cluster: Any) -> None:
    """The lag in seconds is not negative."""
    times(fake)
    fake.commit("g", "t", 0, 0)
    fake.counted_at_ms = 400
    assert (await cluster.admin().consumer_group_lag("g"))["g"].seconds == 0


async def test_owners_are_shown_also_without_a_commit(fake: FakeAdminCluster, cluster: Any) -> None:
    """A partition that a member has and never committed has no lag; one without a member has none."""
    times(fake)
    fake.commit("g", "t", 0, 3)
    fake.group("g").join("m-1", None, encode_assignment(Assignment(3, (SECOND,))))
    found = (await cluster.admin().consumer_group_lag("g"))["g"].partitions
    assert (found[FIRST].records, found[FIRST].member) == (0, None)
    assert (found[SECOND].committed, found[SECOND].records, found[SECOND].seconds) == (None, None, None)
    member = found[SECOND].member
    assert member is not None
    assert member.member_id == "m-1"


@pytest.mark.fake_cluster(nodes=3)
async def test_all_groups_share_the_questions(fake: FakeAdminCluster, cluster: Any) -> None:
    """Groups of all coordinators are listed; each leader is asked once for the offsets of all groups."""
    times(fake)
    for number in range(20):
        fake.commit(f"g{number}", "t", number % 2, number % 4)
        fake.homes[f"g{number}"] = number % 3
    found = await cluster.admin().consumer_group_lag()
    assert not found.errors
    assert [found[f"g{n}"].records for n in range(4)] == [3, 0, 1, 0]
    asked = [entry for body in fake.requests("CountRecords") for entry in body.partitions]
    assert sorted((entry.partition, entry.offsets) for entry in asked) == [(0, (0, 2)), (1, (1, 3))]


async def test_topics_filter_and_unknown_groups(fake: FakeAdminCluster, cluster: Any) -> None:
    """An unknown group is an error of its own, and so is an unknown partition."""
    times(fake)
    fake.create("other", 1)
    fake.commit("g", "t", 0, 1)
    fake.commit("g", "other", 0, 0)
    fake.commit("g", "t", 9, 0)
    admin = cluster.admin()
    found = await admin.consumer_group_lag("g", "typo", topics=["t"])
    assert list(found.errors) == ["typo"]
    assert isinstance(found.errors["typo"], errors.GroupIdNotFoundError)
    parts = found["g"].partitions
    assert list(parts) == [FIRST, TopicPartition("t", 9)]
    assert isinstance(parts[TopicPartition("t", 9)].error, errors.UnknownTopicOrPartitionError)
    assert found["g"].records == 2


def test_batches_have_a_bounded_number_of_offsets() -> None:
    """A partition with more is in several; no offset is lost."""
    wanted = {FIRST: range(2_500), SECOND: range(10)}
    batches = list(batches_of(wanted))
    sizes = [sum(map(len, batch.values())) for batch in batches]
    assert sizes == [MAX_COUNTED_OFFSETS, MAX_COUNTED_OFFSETS, 510]
    for tp, offsets in wanted.items():
        assert [offset for batch in batches for offset in batch.get(tp, ())] == list(offsets)


async def test_isolation_level_is_that_of_the_call(fake: FakeAdminCluster, cluster: Any) -> None:
    """read_committed without one; another text is refused before anything is sent."""
    times(fake)
    fake.commit("g", "t", 0, 1)
    fake.stable_ends["t", 0] = 2
    admin = cluster.admin()
    assert (await admin.consumer_group_lag("g"))["g"].records == 1
    found = (await admin.consumer_group_lag("g", isolation="read_uncommitted"))["g"].partitions[FIRST]
    assert (found.records, found.end) == (2, 3)
    asked = len(fake.requests("CountRecords"))
    with pytest.raises(errors.ConfigError, match="isolation is one of"):
        await admin.consumer_group_lag("g", isolation="serializable")
    assert len(fake.requests("CountRecords")) == asked


async def test_records_are_counted_at_any_offset(fake: FakeAdminCluster, cluster: Any) -> None:
    """By offset; a partition that does not exist is an error of its own."""
    times(fake)
    missing = TopicPartition("t", 9)
    found = await cluster.admin().count_records({FIRST: [2, 0, 2], missing: [0]})
    assert {offset: lag.records for offset, lag in found[FIRST].items()} == {0: 3, 2: 1}
    assert list(found.errors) == [missing]
