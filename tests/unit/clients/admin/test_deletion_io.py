"""DeleteRecords with the admin client, on a fake cluster in virtual time."""

from typing import Any

import pytest
from fake_cluster import Fault
from headrace.clients.admin.admin_types import EARLIEST, LATEST, DeletedRecords
from headrace.protocol import errors
from headrace.protocol.model import TopicPartition


@pytest.mark.fake_cluster(nodes=3)
async def test_records_are_deleted_at_their_leaders(fake: Any, cluster: Any) -> None:
    """Up to an offset, or all; each leader gets one request, and each partition has its own outcome."""
    fake.create("t", 3)
    fake.create("keys")
    fake.compacted.add("keys")
    for partition in range(3):
        fake.put("t", partition, b"1", b"2", b"3")
    wanted = {
        TopicPartition("t", 0): 2,
        TopicPartition("t", 1): LATEST,
        TopicPartition("t", 2): 4,
        TopicPartition("t", 3): 1,
        TopicPartition("keys", 0): 0,
        TopicPartition("typo", 0): 0,
    }
    results = await cluster.admin().delete_records(wanted, timeout=5)
    assert list(results) == list(wanted)
    assert results[TopicPartition("t", 0)] == DeletedRecords(2)
    assert results[TopicPartition("t", 1)] == DeletedRecords(3)
    kinds = {str(place): type(error) for place, error in results.errors.items()}
    assert kinds == {
        "t-2": errors.OffsetOutOfRangeError,
        "t-3": errors.UnknownTopicOrPartitionError,
        "keys-0": errors.PolicyViolationError,
        "typo-0": errors.UnknownTopicOrPartitionError,
    }
    assert [part.log_start_offset for part in fake.topics["t"].partitions] == [2, 3, 0]
    leaders = [node for name, node, _ in fake.asked if name == "DeleteRecords"]
    assert sorted(leaders) == sorted(set(leaders))


async def test_lost_response_is_retried(fake: Any, cluster: Any) -> None:
    """The records are deleted already; the timeout of the retry is the time that is left."""
    fake.create("t")
    fake.put("t", 0, b"1", b"2")
    fake.fail_next("DeleteRecords", Fault(lost_reply=True))
    place = TopicPartition("t", 0)
    assert (await cluster.admin().delete_records({place: 1}))[place].low_watermark == 1
    first, second = fake.requests("DeleteRecords")
    assert 0 < second.timeout_ms <= first.timeout_ms


async def test_timeout_has_the_cause(fake: Any, cluster: Any) -> None:
    """A replica does not follow: the server times out, the client retries until its own timeout."""
    fake.create("t")
    fake.fail_next("DeleteRecords", Fault(error=errors.RequestTimedOutError("one is missing")), 99)
    place = TopicPartition("t", 0)
    (error,) = (await cluster.admin().delete_records({place: 0}, timeout=2)).errors.values()
    assert isinstance(error, errors.ApiTimeoutError)
    assert "one is missing" in str(error)


@pytest.mark.parametrize("offset", [-2, EARLIEST])
async def test_invalid_offsets_are_errors(fake: Any, cluster: Any, offset: Any) -> None:
    """Before a request is sent."""
    with pytest.raises(errors.ConfigError, match="LATEST"):
        await cluster.admin().delete_records({TopicPartition("t", 0): offset})
    assert fake.asked == []
