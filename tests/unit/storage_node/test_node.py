"""The node core as a whole: routing, the timer, what waits for metadata, and counting."""

import json

import pytest
from core_rig import CoreRig, FakeRequest
from headrace.protocol.errors import InvalidRequestError, LeaderNotAvailableError, UnsupportedVersionError
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import CreateTopicsRequest, FetchMetadataResponse
from headrace.protocol.messages.data import FetchPartition, FetchRequest, MetadataRequest
from headrace.protocol.metadata.records import FormatRecord, NoOpRecord
from headrace.storage_node.effects import WakeAt
from node_rig import batch


@pytest.fixture
def rig() -> CoreRig:
    return CoreRig()


def test_metadata_response_has_the_newest_image(rig: CoreRig) -> None:
    assert rig.ask(registry.METADATA, MetadataRequest()).answer.topics == ()
    topic_id = rig.topic("t")
    answer = rig.ask(registry.METADATA, MetadataRequest()).answer
    assert [topic.topic_id for topic in answer.topics] == [topic_id]
    assert answer.metadata_offset == rig.image.offset
    assert answer.controller_id == 9


def test_metadata_requests_are_bounded() -> None:
    """Bound: max.request.partitions."""
    rig = CoreRig(max_request_partitions=2)
    for body in (MetadataRequest(("a", "b", "c")), MetadataRequest(("a",), (b"b", b"c"))):
        assert isinstance(rig.ask(registry.METADATA, body).error, InvalidRequestError)
    assert len(rig.ask(registry.METADATA, MetadataRequest(("a", "b"))).answer.topics) == 2


def test_unserved_api_is_refused(rig: CoreRig) -> None:
    request = rig.ask(registry.CREATE_TOPICS, CreateTopicsRequest(()))
    assert isinstance(request.error, UnsupportedVersionError)


def test_records_that_do_not_continue_the_image_raise(rig: CoreRig) -> None:
    """They come from another metadata log."""
    response = FetchMetadataResponse(0, "", False, 50, 51, (NoOpRecord(),))
    with pytest.raises(ValueError, match="50"):
        rig.core.follow_metadata(response, 0, rig.now_ms)


def test_empty_metadata_response_changes_nothing(rig: CoreRig) -> None:
    """The long poll has timed out."""
    offset = rig.image.offset
    assert rig.core.follow_metadata(FetchMetadataResponse(0, ""), 0, rig.now_ms) == offset


class TestWaitingForMetadata:
    """Responses that wait until this node's image has the change."""

    def test_response_waits_for_the_image(self, rig: CoreRig) -> None:
        """Not before, and once."""
        answers: list[int] = []
        wanted = rig.image.offset + 2
        rig.core.when_metadata_reaches(
            wanted, lambda: answers.append(rig.core.image.offset), 4_000, rig.now_ms
        )
        rig.metadata(NoOpRecord())
        assert answers == []
        rig.metadata(NoOpRecord())
        rig.pass_time(10_000)
        assert answers == [wanted]

    def test_response_is_sent_at_once_when_the_image_is_newer(self, rig: CoreRig) -> None:
        """Also without an offset."""
        answers: list[str] = []
        rig.core.when_metadata_reaches(rig.image.offset, lambda: answers.append("a"), 4_000, rig.now_ms)
        rig.core.when_metadata_reaches(-1, lambda: answers.append("b"), 4_000, rig.now_ms)
        assert answers == ["a", "b"]

    def test_response_is_sent_at_the_deadline(self, rig: CoreRig) -> None:
        """The metadata is late."""
        answers: list[str] = []
        rig.core.when_metadata_reaches(10_000, lambda: answers.append("late"), 100, rig.now_ms)
        rig.check()
        rig.pass_time(99)
        assert answers == []
        rig.pass_time(1)
        assert answers == ["late"]


def test_timer_is_set_to_the_earliest_deadline(rig: CoreRig) -> None:
    """A later deadline does not move it."""
    topic_id = rig.topic()

    def asked_for(max_wait_ms: int) -> list[int]:
        rig.core.take_effects()
        body = FetchRequest(max_wait_ms, 1, 1_000, 0, (FetchPartition(topic_id, 0, 0, 1_000),))
        rig.core.handle(FakeRequest(registry.FETCH, body), rig.now_ms, 0)
        return [effect.deadline_ms for effect in rig.core.take_effects() if isinstance(effect, WakeAt)]

    (first,) = asked_for(10_000)
    assert first <= rig.now_ms + 10_000
    assert asked_for(20_000) == []
    (earlier,) = asked_for(5)
    assert earlier <= rig.now_ms + 5


def test_idle_node_sets_no_timer(rig: CoreRig) -> None:
    topic_id = rig.topic()
    request = rig.fetch(topic_id, max_wait_ms=100)
    rig.produce(topic_id)
    assert request.is_answered
    rig.pass_time(1_000)
    rig.fetch(topic_id)
    assert not [effect for effect in rig.core.take_effects() if isinstance(effect, WakeAt)]


def test_completed_fetch_may_take_the_log_dir_offline() -> None:
    """Waiting fetches of its other partitions complete in the same event."""
    rig = CoreRig(log_tail_cache_bytes=0)
    first, second = rig.topic("a"), rig.topic("b")
    waiting = [rig.fetch(first, max_wait_ms=60_000), rig.fetch(second, max_wait_ms=60_000)]
    rig.files.fail("pread", "a-0")
    rig.produce(first)
    assert [request.first.error_code for request in waiting] == [56, 56]
    assert rig.core.parked == 0


def test_status_is_json(rig: CoreRig) -> None:
    """Partitions, leaders, waiting requests, totals."""
    topic_id = rig.topic(partitions=2)
    rig.topic("far", leader=2, replicas=(2,))
    rig.produce(topic_id, batch(b"a", b"b"))
    rig.fetch(topic_id, 2, max_wait_ms=1_000)
    status = json.loads(json.dumps(rig.core.status(rig.now_ms)))
    assert (status["partitions"], status["leaders"], status["parked_requests"]) == (2, 2, 1)
    assert status["counters"]["produced_records"] == 2
    assert status["counters"]["produced_batches"] == 1
    assert status["counters"]["produced_bytes"] == len(batch(b"a", b"b"))


def test_starting_node_refuses_metadata_requests() -> None:
    """With an incomplete image a missing topic may exist."""
    rig = CoreRig(records=())
    request = rig.ask(registry.METADATA, MetadataRequest(("t",)))
    assert isinstance(request.error, LeaderNotAvailableError)
    assert request.error.retriable
    rig.metadata(FormatRecord("c"), NoOpRecord(), broker_epoch=5)
    assert isinstance(rig.ask(registry.METADATA, MetadataRequest(("t",))).error, LeaderNotAvailableError)
    rig.metadata(*[NoOpRecord()] * 5, broker_epoch=5)
    assert rig.ask(registry.METADATA, MetadataRequest(("t",))).answer.cluster_id == "c"


def test_stale_metadata_response_is_dropped(rig: CoreRig) -> None:
    """A new connection fetched again while logs were created for the response of the old one."""
    response = FetchMetadataResponse(0, "", False, 1, 3, (NoOpRecord(), NoOpRecord()))
    longer = FetchMetadataResponse(0, "", False, 1, 4, (NoOpRecord(),) * 3)
    assert rig.core.follow_metadata(response, 0, rig.now_ms) == 2
    assert rig.core.read_metadata(response) is None
    assert rig.core.read_metadata(longer) is None
    assert rig.core.image.offset == 2


def test_logs_are_created_ahead_of_the_metadata_step(rig: CoreRig) -> None:
    """`follow` itself creates no folder."""
    _, records = rig.topic_records("t", 70, durability="fsync")
    response = FetchMetadataResponse(0, "", False, 1, 1 + len(records), tuple(records))
    step = rig.core.read_metadata(response)
    assert step is not None
    tasks = rig.core.logs_ahead(step, 0)
    assert [len(task.wanted) for task in tasks] == [50, 20]
    for task in tasks:
        task.run()
    before = len(rig.files.operations)
    assert rig.core.follow(step, 0, tasks, now_ms=rig.now_ms) == len(records)
    assert rig.files.operations[before:] == []
    logs = [partition.log for partition in rig.core.table.partitions.values()]
    assert len(logs) == 70
    assert all(log is not None and log.config.durability == "fsync" for log in logs)


def test_no_logs_are_created_for_an_incomplete_image() -> None:
    """Its topics may be deleted by the rest of it."""
    rig = CoreRig(records=())
    _, records = rig.topic_records("t")
    response = FetchMetadataResponse(0, "", False, 0, len(records), tuple(records))
    step = rig.core.read_metadata(response)
    assert step is not None
    assert rig.core.logs_ahead(step, 50) == []
