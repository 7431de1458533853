"""Fetch sessions of followers, as the leader keeps them."""

from typing import Any

import pytest
from core_rig import FakePeer
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import (
    EpochQuestion,
    FetchPartition,
    FetchRequest,
    OffsetForLeaderEpochRequest,
)
from headrace.storage_node.effects import SendFetch
from replica_rig import TOPIC, Replicas


class Follower:
    """Node 2 by hand: its requests, with the session's facts filled in."""

    def __init__(self, cluster: Replicas) -> None:
        self.cluster = cluster
        self.peer = FakePeer(5_000)
        self.session, self.epoch = 0, 0

    def fetch(self, offset: int | None = None, *, wait_ms: int = 0, **facts: Any) -> Any:
        """`offset` None names no partition."""
        epoch = facts.pop("leader_epoch", 0)
        last = facts.pop("last_epoch", 0)
        topic_id = facts.pop("topic_id", TOPIC)
        max_bytes = facts.pop("max_bytes", 1 << 20)
        named = () if offset is None else (FetchPartition(topic_id, 0, offset, max_bytes, epoch, last, 0),)
        body = FetchRequest(
            wait_ms,
            1,
            1 << 20,
            0,
            named,
            facts.pop("replica", 2),
            facts.pop("replica_epoch", self.cluster.epochs[2]),
            facts.pop("session", self.session),
            facts.pop("session_epoch", self.epoch),
            facts.pop("forgotten", ()),
        )
        request = self.cluster.nodes[1].ask(registry.FETCH, body, (), self.peer)
        self.epoch += 1
        if request.answer is not None and not request.answer.error_code:
            self.session = request.answer.session_id
        return request


@pytest.fixture
def cluster() -> Replicas:
    """Nodes that send no fetch by themselves."""
    cluster = Replicas()
    for rig in cluster.nodes.values():
        rig.pop(SendFetch)
    return cluster


@pytest.fixture
def follower(cluster) -> Follower:
    return Follower(cluster)


def test_session_response_has_only_changed_partitions(cluster, follower) -> None:
    """Nothing more is sent until the follower fetches again."""
    cluster.produce(b"a")
    first = follower.fetch(0)
    assert first.answer.keys == ((TOPIC, 0),)
    assert first.first.frame_count == 1
    # the follower has not fetched since: no further response, whatever is appended
    cluster.produce(b"b")
    assert follower.fetch().answer.partitions == ()
    second = follower.fetch(1)
    assert second.first.frame_count == 1


def test_waiting_fetch_is_completed_by_the_next_one(cluster, follower) -> None:
    """A follower never waits with its own progress."""
    follower.fetch(0, wait_ms=500)
    waiting = follower.fetch(wait_ms=500)
    assert not waiting.is_answered
    overtaking = follower.fetch(wait_ms=500)
    assert waiting.answer.partitions == ()
    cluster.produce()
    assert overtaking.first.frame_count == 1


def test_new_high_watermark_is_sent_at_once(cluster, follower) -> None:
    """KIP-1166: not only with the next records."""
    cluster.change(isr=(1, 2))
    cluster.fence(3)
    cluster.produce()
    follower.fetch(0)
    response = follower.fetch(1, wait_ms=500)
    assert (response.first.high_watermark, response.first.frame_count) == (1, 0)
    assert not follower.fetch(wait_ms=500).is_answered


def test_unknown_session_and_wrong_session_epoch_are_errors(cluster, follower) -> None:
    """The follower starts a new session."""
    follower.fetch(0)
    code = follower.fetch(session=999).answer.error_code
    assert code == errors.FetchSessionIdNotFoundError.code
    follower.epoch = 7
    assert follower.fetch().answer.error_code == errors.InvalidFetchSessionEpochError.code
    follower.session, follower.epoch = 0, 0
    assert follower.fetch(0).answer.error_code == 0


def test_a_session_belongs_to_its_connection(cluster, follower) -> None:
    follower.fetch(0)
    follower.peer = FakePeer(5_001)
    assert follower.fetch().answer.error_code == errors.FetchSessionIdNotFoundError.code
    cluster.nodes[1].core.connection_gone(5_000, cluster.now_ms)
    assert not cluster.nodes[1].core._replica_fetch.sessions


def test_sessions_of_one_connection_are_bounded(cluster, follower) -> None:
    """The oldest one is ended."""
    for _ in range(100):
        follower.session, follower.epoch = 0, 0
        assert follower.fetch(0).answer.error_code == 0
    assert len(cluster.nodes[1].core._replica_fetch.sessions) == 64


def test_forgotten_partition_leaves_the_session(cluster, follower) -> None:
    """No state of it remains."""
    follower.fetch(0)
    follower.fetch(forgotten=((TOPIC, 0), (b"never", 3)))
    cluster.produce()
    assert follower.fetch().answer.partitions == ()
    assert not cluster.nodes[1].core._replica_fetch._followed


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ({"leader_epoch": 1}, errors.UnknownLeaderEpochError),
        ({"topic_id": b"another"}, errors.UnknownTopicIdError),
        ({"offset": 5, "last_epoch": -1}, errors.OffsetOutOfRangeError),
        ({"offset": 5, "last_epoch": 9}, errors.OffsetOutOfRangeError),
    ],
)
def test_partition_error_does_not_end_the_session(cluster, follower, facts, error) -> None:
    request = follower.fetch(**{"offset": 0, **facts})
    assert request.first.error_code == error.code
    if error is errors.OffsetOutOfRangeError:
        assert (request.first.log_start_offset, request.first.diverging_end_offset) == (0, 0)


def test_older_leader_epoch_is_fenced(cluster, follower) -> None:
    cluster.change(leader=1)
    assert follower.fetch(0, leader_epoch=0).first.error_code == errors.FencedLeaderEpochError.code
    assert cluster.partition(1).in_sync.followers[2].end_offset == -1


def test_fetch_of_a_non_replica_is_refused(cluster, follower) -> None:
    """It may have been reassigned."""
    cluster.change(replicas=(1, 3), isr=(1, 3))
    assert follower.fetch(0).first.error_code == errors.NotLeaderOrFollowerError.code


def test_older_broker_epoch_makes_no_progress(cluster, follower) -> None:
    """KIP-903."""
    cluster.produce()
    follower.fetch(0)
    follower.fetch(1)
    old = Follower(cluster)
    old.peer = FakePeer(5_002)
    request = old.fetch(1, replica_epoch=cluster.epochs[2] - 1)
    assert request.first.error_code == errors.NotLeaderOrFollowerError.code


def test_unregistered_node_is_refused(cluster, follower) -> None:
    """This node's metadata may be late."""
    assert isinstance(follower.fetch(0, replica=9).error, errors.BrokerIdNotRegisteredError)


def test_diverged_follower_gets_the_divergence_and_makes_no_progress(cluster, follower) -> None:
    """It has other records than the leader."""
    cluster.produce(b"a")
    cluster.change(leader=1)
    cluster.produce(b"b")
    request = follower.fetch(2, leader_epoch=1, last_epoch=0)
    answer = request.first
    assert (answer.error_code, answer.frame_count) == (0, 0)
    assert (answer.diverging_epoch, answer.diverging_end_offset) == (0, 1)
    assert cluster.partition(1).in_sync.followers[2].end_offset == -1


def test_partition_without_space_is_first_in_the_next_response(cluster, follower) -> None:
    """One batch above the limit is returned all the same."""
    cluster.produce(b"x" * 1_000)
    assert follower.fetch(0, max_bytes=10).first.frame_count == 1


def test_offset_for_leader_epoch(cluster) -> None:
    """For consumers (KIP-320)."""
    cluster.produce(b"a")
    cluster.change(leader=1)
    cluster.produce(b"b")
    questions = [(0, -1), (1, 1), (5, -1), (0, 0), (0, 7)]
    body = OffsetForLeaderEpochRequest(tuple(EpochQuestion(TOPIC, 0, *each) for each in questions))
    answers = cluster.nodes[1].ask(registry.OFFSET_FOR_LEADER_EPOCH, body).answer.partitions
    assert [(a.error_code, a.leader_epoch, a.end_offset) for a in answers] == [
        (0, 0, 1),
        (0, 1, 2),
        (0, -1, -1),
        (errors.FencedLeaderEpochError.code, -1, -1),
        (errors.UnknownLeaderEpochError.code, -1, -1),
    ]
