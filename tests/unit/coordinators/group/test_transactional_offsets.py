"""TxnOffsetCommit: offsets that count when their transaction commits, and the questions before."""

import pytest
from group_rig import Asked, GroupRig, topic_image
from headrace.coordinators.runtime.ports import ProducerIdAndEpoch
from headrace.protocol import errors
from headrace.protocol.coordinator_ids import partition_of_id
from headrace.protocol.messages import groups as m
from headrace.protocol.messages import registry
from headrace.protocol.messages.transactions import AddedPartitions, AddPartitionsToTxnResponse
from headrace.protocol.metadata.image import PartitionRegistration
from headrace.protocol.model import CONSUMER_OFFSETS, NO_NODE, TRANSACTION_STATE

P, Q = ProducerIdAndEpoch(9, 0), ProducerIdAndEpoch(10, 3)
UNSTABLE = {("t", 0): -errors.UnstableOffsetCommitError.code}


def agreed(code: int = 0, of_partition: int = 0) -> AddPartitionsToTxnResponse:
    results = (m.PartitionResult(CONSUMER_OFFSETS, 3, of_partition),)
    return AddPartitionsToTxnResponse((AddedPartitions("txn", code, () if code else results),))


def trusting(**keys: object) -> GroupRig:
    """A coordinator that does not verify whether a transaction has its partition."""
    return GroupRig(transaction_partition_verification_enable=False, **keys)


def asking() -> GroupRig:
    rig = GroupRig()
    rig.change_topics(*rig.image.topics.values(), topic_image(TRANSACTION_STATE, 77, 50))
    return rig


def error_of(asked: Asked) -> int:
    """Of the request, or of its first partition."""
    body = asked.answer
    return body.code if isinstance(body, errors.KafkaError) else body.results[0].error_code


# --- what a marker decides -------------------------------------------------------------------------------


@pytest.mark.parametrize("reloads", [False, True])
@pytest.mark.parametrize("is_commit", [False, True])
def test_marker_commits_or_aborts_pending_offsets(is_commit: bool, reloads: bool) -> None:
    """Before the marker a fetch of stable offsets is retriable; also after a load."""
    rig = trusting()
    rig.commit_offset(1)
    assert error_of(rig.txn_commit_offset(5, P)) == 0
    if reloads:
        rig.reload()
    assert rig.offsets() == {("t", 0): 1}
    assert rig.offsets(require_stable=True) == UNSTABLE
    rig.end_transaction(P, is_commit=is_commit)
    if reloads:
        rig.reload()
    assert rig.offsets(require_stable=True) == {("t", 0): 5 if is_commit else 1}


def test_partition_with_pending_offsets_only_is_unstable() -> None:
    """A fetch of all stable offsets includes it; a fetch without require_stable does not."""
    rig = trusting()
    rig.txn_commit_offset(5, P)
    assert rig.offsets() == {}
    assert rig.offsets(require_stable=True) == UNSTABLE


def test_later_commit_in_the_log_wins() -> None:
    """Whenever the transaction ends, so that compaction cannot change the result."""
    rig = trusting()
    rig.txn_commit_offset(5, P)
    rig.commit_offset(7)
    rig.end_transaction(P, is_commit=True)
    assert rig.offsets() == {("t", 0): 7}
    rig.txn_commit_offset(6, P)
    rig.end_transaction(P, is_commit=True)
    assert rig.offsets() == {("t", 0): 6}
    rig.reload()
    assert rig.offsets() == {("t", 0): 6}


def test_two_transactions_have_pending_offsets_of_one_partition() -> None:
    """Each ends on its own."""
    rig = trusting()
    rig.txn_commit_offset(5, P)
    rig.txn_commit_offset(6, Q)
    rig.end_transaction(Q, is_commit=True)
    assert rig.offsets() == {("t", 0): 6}
    assert rig.offsets(require_stable=True) == UNSTABLE
    rig.end_transaction(P, is_commit=True)
    assert rig.offsets(require_stable=True) == {("t", 0): 6}


def test_marker_without_pending_offsets_changes_nothing() -> None:
    rig = trusting()
    rig.txn_commit_offset(5, P)
    rig.end_transaction(Q, is_commit=True)
    assert rig.offsets(require_stable=True) == UNSTABLE


def test_deleted_offsets_are_not_restored_by_a_commit() -> None:
    """An admin deleted them during the transaction: those of a topic, or the whole group."""
    rig = trusting()
    for group in "gh":
        rig.txn_commit_offset(5, P, group)
    topics = (m.TopicNamePartitions("t", (0,)),)
    rig.request(registry.OFFSET_DELETE, m.OffsetDeleteRequest("g", topics))
    rig.request(registry.DELETE_GROUPS, m.DeleteGroupsRequest(("h",)))
    for _ in range(2):
        assert rig.offsets("g", require_stable=True) == {}
        assert rig.offsets("h", require_stable=True) == {}
        rig.reload()
    rig.end_transaction(P, is_commit=True)
    assert rig.offsets("g") == {}
    assert rig.offsets("h") == {}


# --- checks of member and producer -----------------------------------------------------------------------


def test_txn_commit_of_another_generation_is_refused() -> None:
    """KIP-447: zombies of earlier generations are fenced; old clients send no generation."""
    rig = trusting()
    first, _ = rig.stable_group(2)
    assert error_of(rig.txn_commit_offset(5, P, member_id=first, generation_id=2)) == 0
    assert error_of(rig.txn_commit_offset(5, P, member_id=first, generation_id=1)) == 22
    assert error_of(rig.txn_commit_offset(5, P, member_id="x", generation_id=2)) == 25
    assert error_of(rig.txn_commit_offset(5, P)) == 0
    assert error_of(rig.txn_commit_offset(5, P, "h", member_id="x", generation_id=1)) == 22
    assert (errors.IllegalGenerationError.code, errors.UnknownMemberIdError.code) == (22, 25)


def test_txn_commit_during_a_rebalance_is_accepted() -> None:
    """The transaction began before it."""
    rig = trusting()
    joined = rig.join(requires_member_id=False)
    rig.advance(0)
    member_id = joined.answer.member_id
    assert error_of(rig.txn_commit_offset(5, P, member_id=member_id, generation_id=1)) == 0


@pytest.mark.parametrize("producer", [(-1, -1), (-1, 5), (1 << 63, 0), (9, -1), (9, 1 << 15)])
def test_txn_commit_without_a_producer_id_is_refused(producer: tuple[int, int]) -> None:
    """It would count at once; an id that no batch can hold would end the node."""
    rig = trusting()
    assert (
        error_of(rig.txn_commit_offset(1, ProducerIdAndEpoch(*producer)))
        == errors.InvalidProducerIdMappingError.code
    )
    assert rig.offsets() == {}


def test_txn_commit_for_a_missing_partition_appends_nothing() -> None:
    rig = trusting()
    assert error_of(rig.txn_commit_offset(5, P, tp=("v", 0))) == errors.UnknownTopicOrPartitionError.code
    assert not rig.log


def test_failed_append_is_returned_to_the_client() -> None:
    """No request stays parked."""
    rig = trusting()
    rig.refuses = errors.MessageTooLargeError()
    assert error_of(rig.txn_commit_offset(5, P)) == errors.InvalidCommitOffsetSizeError.code
    rig.refuses = None
    assert rig.offsets(require_stable=True) == {}


# --- adding the partition --------------------------------------------------------------------------------


def test_partition_is_added_to_the_transaction_first() -> None:
    """By the transaction coordinator; then the offsets are appended, and the request is not repeated."""
    rig = asking()
    waiting = rig.txn_commit_offset(5, P, adds_partition=True)
    assert waiting.waits
    assert not rig.log
    (sent,) = rig.sent
    (asked,) = sent.body.transactions
    assert (sent.node_id, sent.api) == (1, registry.ADD_PARTITIONS_TO_TXN)
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == ("txn", 9, 0)
    assert asked.topics == (m.TopicNamePartitions(CONSUMER_OFFSETS, (3,)),)
    assert not asked.verify_only
    rig.reply(agreed())
    assert error_of(waiting) == 0
    assert rig.log[0].producer == P
    assert error_of(rig.txn_commit_offset(6, P, adds_partition=True)) == 0
    assert not rig.sent


def test_partition_added_by_the_client_is_verified() -> None:
    """KIP-890: a transaction that no coordinator would end must not begin."""
    rig = asking()
    rig.txn_commit_offset(5, P)
    assert rig.sent[0].body.transactions[0].verify_only


def test_next_transaction_is_verified_again() -> None:
    """After a marker, and for another epoch."""
    rig = asking()
    rig.txn_commit_offset(5, P, adds_partition=True)
    rig.reply(agreed())
    rig.txn_commit_offset(5, ProducerIdAndEpoch(9, 1), adds_partition=True)
    assert len(rig.sent) == 1
    rig.sent.clear()
    rig.end_transaction(P, is_commit=True)
    rig.txn_commit_offset(5, P, adds_partition=True)
    assert len(rig.sent) == 1


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (errors.NetworkError(), errors.CoordinatorLoadInProgressError),
        (errors.NotCoordinatorError(), errors.CoordinatorLoadInProgressError),
        (agreed(errors.NotCoordinatorError.code), errors.CoordinatorLoadInProgressError),
        (agreed(errors.ConcurrentTransactionsError.code), errors.ConcurrentTransactionsError),
        (agreed(errors.InvalidProducerIdMappingError.code), errors.InvalidProducerIdMappingError),
        (agreed(errors.ProducerFencedError.code), errors.ProducerFencedError),
        (agreed(0, errors.InvalidProducerEpochError.code), errors.InvalidProducerEpochError),
    ],
)
def test_refused_verification_appends_nothing(answer: object, seen: type[errors.KafkaError]) -> None:
    """The group coordinator retries transient errors; the client gets all others."""
    rig = asking()
    waiting = rig.txn_commit_offset(5, P, adds_partition=True)
    rig.reply(answer)
    assert error_of(waiting) == seen.code
    assert not rig.log


def test_verification_without_a_transaction_coordinator(rig: GroupRig) -> None:
    """The internal topic does not exist yet, or the partition has no leader."""
    assert error_of(rig.txn_commit_offset(5, P)) == errors.CoordinatorNotAvailableError.code
    topic = topic_image(TRANSACTION_STATE, 77, 50)
    without_leader = PartitionRegistration((1,), (1,), NO_NODE, 0, 0)
    partitions = list(topic.partitions)
    partitions[partition_of_id("txn", 50)] = without_leader
    rig.change_topics(type(topic)(topic.name, topic.topic_id, tuple(partitions)))
    assert error_of(rig.txn_commit_offset(5, P)) == errors.CoordinatorNotAvailableError.code


def test_transaction_that_ends_during_verification_stays_ended() -> None:
    """Its marker is in the log: later offsets would be pending for ever."""
    rig = asking()
    waiting = rig.txn_commit_offset(5, P, adds_partition=True)
    rig.end_transaction(P, is_commit=False)
    rig.reply(agreed())
    assert error_of(waiting) == errors.ConcurrentTransactionsError.code
    assert rig.offsets(require_stable=True) == {}


def test_rebalance_during_verification_fences_the_member() -> None:
    """The generation is checked again when the partition is added."""
    rig = asking()
    first, second = rig.stable_group(2)
    waiting = rig.txn_commit_offset(5, P, member_id=second, generation_id=2, adds_partition=True)
    rig.leave(m.LeavingMember(second))
    rig.reply(agreed())
    assert error_of(waiting) == errors.UnknownMemberIdError.code
    assert rig.heartbeat(first, 2).code == 27


def test_concurrent_verifications_are_answered_separately() -> None:
    rig = asking()
    waiting = [rig.txn_commit_offset(number, P, adds_partition=True) for number in (5, 6)]
    rig.reply(agreed())
    rig.reply(agreed())
    assert [error_of(each) for each in waiting] == [0, 0]
    rig.end_transaction(P, is_commit=True)
    assert rig.offsets() == {("t", 0): 6}


def test_waiting_verifications_are_answered_when_the_shard_ends() -> None:
    """The client looks up the new coordinator."""
    rig = asking()
    waiting = rig.txn_commit_offset(5, P, adds_partition=True)
    assert rig.shard.close() == [waiting]
