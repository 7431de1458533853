"""What a coordinator shows while it cannot know that it still coordinates, and while another may believe that
it does."""

import pytest
from coordinator_rig import CoordinatorRig
from headrace.protocol import errors
from headrace.protocol.messages.groups import HeartbeatResponse
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.coordinator_records import decode_record


@pytest.fixture
def rig() -> CoordinatorRig:
    """Loaded; what is appended is committed by `commit`; there is no lease."""
    rig = CoordinatorRig()
    rig.host.commits_at_once = False
    rig.lead()
    rig.set(5)
    rig.commit()
    rig.host.has_lease = False
    return rig


def test_uncommitted_state_is_returned_after_a_commit(rig: CoordinatorRig) -> None:
    """A no-op record is appended for it. A later lease does not cover an earlier read."""
    shown = rig.describe("g")
    assert shown.is_waiting
    assert rig.host.logs[0].end == 2
    rig.host.has_lease = True
    assert rig.describe("g").is_waiting, "others wait for all that is applied"
    rig.commit()
    assert shown.answer.groups[0].group_state == "5"
    assert rig.describe("g").answer == shown.answer
    assert rig.host.logs[0].end == 2


def test_no_op_record_changes_no_state(rig: CoordinatorRig) -> None:
    """It deletes a key that can never exist."""
    rig.describe("g")
    (record,) = active_codec().decode(rig.host.logs[0].batches[-1])
    key, value = decode_record(record.key, record.value)  # type: ignore[misc]
    assert (key, value) == rig.shard.noop_record
    assert rig.shard.numbers == {"g": 5}


def test_earlier_append_does_not_prove_leadership(rig: CoordinatorRig) -> None:
    """The next leader may have replicated it before its election."""
    written = rig.set(6)
    shown = rig.describe("g")
    rig.commit(2)
    assert written.answer == HeartbeatResponse(0, "6")
    assert shown.is_waiting
    rig.commit(3)
    assert shown.answer.groups[0].group_state == "6"


def test_former_leader_returns_no_state(rig: CoordinatorRig) -> None:
    """It responds with NOT_COORDINATOR, or its no-op record is never committed."""
    late = rig.describe("g")
    rig.pass_time(5_000)
    assert late.answer.groups[0].error_code == errors.CoordinatorNotAvailableError.code
    shown = rig.describe("g")
    rig.leave()
    assert shown.answer.groups[0].error_code == errors.NotCoordinatorError.code


def test_isr_below_the_minimum_needs_a_lease(rig: CoordinatorRig) -> None:
    """Without a lease the node cannot exclude a newer leader."""
    rig.host.refuses = errors.NotEnoughReplicasError("too few")
    assert rig.describe("g").answer.groups[0].error_code == errors.CoordinatorNotAvailableError.code
    rig.host.has_lease = True
    assert rig.describe("g").answer.groups[0].group_state == "5"


def test_error_waits_for_the_lease_like_a_response(rig: CoordinatorRig) -> None:
    """It may be out of date as well: a member that is not known here may be known elsewhere."""
    rig.shard.refusal = errors.UnknownServerError("unknown member")
    refused = rig.describe("g")
    assert refused.is_waiting
    rig.commit()
    assert refused.answer.groups[0].error_code == errors.UnknownServerError.code
    rig.host.has_lease = True
    assert not rig.describe("g").is_waiting


def test_response_of_a_timer_waits_for_the_lease(rig: CoordinatorRig) -> None:
    joined = rig.join()
    rig.pass_time(10)
    assert joined.is_waiting
    rig.commit()
    assert not isinstance(joined.answer, errors.KafkaError)


def test_no_state_is_returned_before_the_handover() -> None:
    """The log is read meanwhile, including new records; then the coordinator polls for the handover."""
    rig = CoordinatorRig()
    rig.host.handed_over = set()
    rig.lead()
    for _ in range(3):
        assert isinstance(rig.set(5).answer, errors.CoordinatorLoadInProgressError)
        rig.pass_time(10)
    assert not rig.shard.is_loaded
    rig.host.handed_over.add(0)
    rig.pass_time(10)
    assert rig.set(5).answer == HeartbeatResponse(0, "5")


def test_shard_that_loses_the_partition_before_the_handover_is_dropped() -> None:
    """With its timer."""
    rig = CoordinatorRig()
    rig.host.handed_over = set()
    rig.lead()
    rig.leave()
    assert rig.all.next_deadline_ms() is None
