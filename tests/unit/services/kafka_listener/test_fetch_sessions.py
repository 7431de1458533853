"""Incremental fetch sessions: what responses contain, what requests may omit, and when a session ends."""

import importlib
from typing import Any

import pytest
from headrace.protocol.messages.data import FetchPartitionResponse, FetchResponse
from headrace.services.kafka_listener.entities import MS
from headrace.services.kafka_listener.fetch_sessions import EVICTION_MS
from kafka_calls import FakePlane
from kafka_listener_rig import TOPIC
from kafka_wire import answer_of

FETCH, VERSION = 1, 11
m = importlib.import_module(f"kio.schema.fetch.v{VERSION}.request")


class Client:
    """A consumer; the answers of the node come at once, from `results` by partition."""

    def __init__(self, plane: FakePlane) -> None:
        self.plane = plane
        self.results: dict[int, FetchPartitionResponse] = {}
        self.asked: list[tuple[int, int]] = []

    def fetch(
        self,
        session: int,
        epoch: int,
        offsets: dict[int, int],
        forgotten: tuple[int, ...] = (),
        name: str = TOPIC,
    ) -> Any:
        """The response; `asked` has the partitions and offsets that the node was asked for."""
        partitions = tuple(
            m.FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=9)
            for number, offset in offsets.items()
        )
        topics = (m.FetchTopic(topic=name, partitions=partitions),) if partitions else ()
        gone = (m.ForgottenTopic(topic=name, partitions=forgotten),) if forgotten else ()
        body = request_of(session, epoch, topics, gone)
        self.plane.sent.clear()
        self.plane.asked.clear()
        self.plane.start(FETCH, VERSION, body)
        if self.plane.asked:
            (request,) = self.plane.asked
            self.asked = [(each.partition, each.fetch_offset) for each in request.body.partitions]
            found = [self.results.get(number, idle()) for number, _ in self.asked]
            frames = [b"x" * 5 for result in found for _ in range(result.frame_count)]
            self.plane.answer(FetchResponse(tuple(found)), frames)
        return self.plane.only_response(FETCH, VERSION)


def request_of(
    session: int, epoch: int, topics: tuple[Any, ...] = (), forgotten: tuple[Any, ...] = ()
) -> Any:
    """kio's."""
    return m.FetchRequest(
        replica_id=-1,
        max_wait=0 * MS,
        min_bytes=1,
        max_bytes=9,
        isolation_level=0,
        session_id=session,
        session_epoch=epoch,
        topics=topics,
        forgotten_topics_data=forgotten,
        rack_id="",
    )


def idle(high_watermark: int = 5, frames: int = 0, code: int = 0, start: int = 0) -> FetchPartitionResponse:
    """A partition with nothing new, unless said otherwise."""
    return FetchPartitionResponse(code, high_watermark, high_watermark, start, frames)


def response(answer: Any) -> list[int]:
    """The partitions in an answer."""
    return [each.partition_index for topic in answer.responses for each in topic.partitions]


@pytest.fixture
def client() -> Client:
    return Client(FakePlane())


def test_responses_have_changed_partitions_only(client: Client) -> None:
    """All at first; then those with records, a new high watermark or log start offset, or an error."""
    first = client.fetch(0, 0, {0: 1, 1: 2, 2: 3})
    assert first.session_id > 0
    assert response(first) == [0, 1, 2]
    session = first.session_id
    assert response(client.fetch(session, 1, {})) == []
    assert client.asked == [(0, 1), (1, 2), (2, 3)]
    client.results[1] = idle(frames=1)
    assert response(client.fetch(session, 2, {})) == [1]
    client.results = {0: idle(6), 2: idle(start=1)}
    assert response(client.fetch(session, 3, {1: 9})) == [0, 2]
    assert client.asked == [(0, 1), (1, 9), (2, 3)]
    assert response(client.fetch(session, 4, {})) == []
    client.results[0] = idle(6, code=6)
    assert response(client.fetch(session, 5, {})) == [0]
    assert response(client.fetch(session, 6, {})) == [0]
    client.results[0] = idle(6)
    assert response(client.fetch(session, 7, {})) == [0]
    assert response(client.fetch(session, 8, {})) == []


def test_partitions_are_added_and_removed(client: Client) -> None:
    """A session without partitions is closed."""
    session = client.fetch(0, 0, {0: 0}).session_id
    assert response(client.fetch(session, 1, {1: 0})) == [1]
    assert response(client.fetch(session, 2, {}, forgotten=(0,))) == []
    assert client.asked == [(1, 0)]
    last = client.fetch(session, 3, {}, forgotten=(1,))
    assert (last.session_id, client.asked) == (0, [])
    assert int(client.fetch(session, 4, {}).error_code) == 70


def test_invalid_epochs_and_unknown_sessions_are_refused(client: Client) -> None:
    """At once, so that the client begins a new session."""
    session = client.fetch(0, 0, {0: 0}).session_id
    assert int(client.fetch(session, 2, {}).error_code) == 71
    assert int(client.fetch(session + 1, 1, {}).error_code) == 70
    assert not client.plane.asked
    assert response(client.fetch(session, 1, {})) == []
    again = client.fetch(session, 0, {0: 0})
    assert again.session_id not in (0, session)
    assert response(again) == [0]
    final = client.fetch(again.session_id, -1, {0: 0})
    assert (final.session_id, response(final)) == (0, [0])
    assert len(client.plane.fetch_sessions) == 0


def test_sessions_are_bounded(client: Client) -> None:
    """Two slots; a third client fetches without a session until one has been idle for long."""
    first, second, third = (client.fetch(0, 0, {0: 0}).session_id for _ in range(3))
    assert 0 not in (first, second)
    assert third == 0
    client.plane.clock_ms = EVICTION_MS
    client.fetch(second, 1, {})
    client.plane.clock_ms = EVICTION_MS + 1
    assert client.fetch(0, 0, {0: 0}).session_id > 0
    assert int(client.fetch(first, 1, {}).error_code) == 70
    assert int(client.fetch(second, 2, {}).error_code) == 0


def test_an_unknown_topic_stays_in_the_session(client: Client) -> None:
    """It may be created; each response has its error."""
    session = client.fetch(0, 0, {0: 0}, name="later").session_id
    assert session > 0
    for epoch in (1, 2):
        (topic,) = client.fetch(session, epoch, {}).responses
        assert (topic.topic, int(topic.partitions[0].error_code)) == ("later", 3)


def test_the_older_of_two_fetches_of_a_session_fails(client: Client) -> None:
    """With an invalid epoch, whatever it read."""
    session = client.fetch(0, 0, {0: 0}).session_id
    plane = client.plane
    plane.sent.clear()
    plane.asked.clear()
    for epoch in (1, 2):
        plane.start(FETCH, VERSION, request_of(session, epoch))
    older, newer = plane.asked
    older.answered(FetchResponse((idle(),)), ())
    newer.answered(FetchResponse((idle(9),)), ())
    first, second = (answer_of(FETCH, VERSION, sent[4:])[1] for sent in plane.sent)
    assert int(first.error_code) == 71
    assert response(second) == [0]
