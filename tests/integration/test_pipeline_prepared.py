"""A decided batch is never lost: with late attempts, drivers that are down for long, and killed nodes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from headrace import LocalCluster, NewTopic
from headrace.clients.pipeline import (
    Planner,
    PreparedWrite,
    Sink,
    abort_writes,
    fetch_arrow,
    prepare_arrow,
    read_options,
    sink_io,
    write_options,
)
from headrace.clients.pipeline.commits import Decision, task_id
from headrace.protocol import errors
from headrace.protocol.messages.registry import PREPARE_TXN
from markers import until_markers_are_written
from pipeline_rig import Killed, pipeline_cluster
from waiting import wait_for

SLOW_MS = "500"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three nodes, one of which may die; each test has topics and queries of its own."""
    with pipeline_cluster(
        nodes=3,
        broker_session_timeout_ms=3_000,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=50,
    ) as started:
        yield started


def options(cluster: LocalCluster, topic: str, **given: str) -> Any:
    if topic not in {each.name for each in cluster.admin().list_topics()}:
        cluster.admin().create_topics(NewTopic(topic, 1, 3)).raise_for_errors()
    more = {f"kafka.{name.replace('_', '.')}": value for name, value in given.items()}
    return write_options({"bootstrap": cluster.bootstrap, "topic": topic, **more})


def prepare(given: Any, query: str, value: str, task: int = 0) -> PreparedWrite:
    return prepare_arrow([pa.record_batch({"value": [value]})], given, query=query, task=task)


def read(cluster: LocalCluster, topic: str) -> list[str]:
    until_markers_are_written(cluster)
    wanted = read_options(
        {"bootstrap": cluster.bootstrap, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    )
    (whole,) = Planner(wanted).batch().ranges
    batches = fetch_arrow(whole, wanted, columns=["value"])
    return sorted(value.decode() for batch in batches for value in batch.column("value").to_pylist())


def states(cluster: LocalCluster, query: str) -> set[str]:
    return {
        each.state.value
        for each in cluster.admin().list_transactions(pattern=f"headrace-sink/{query}/.*")
        if each.state.value in ("Ongoing", "Prepared")
    }


def die_before(patch: pytest.MonkeyPatch, step: str, first: Callable[[], None] = lambda: None) -> None:
    """Drivers end before this step of a commit."""

    def die(_self: Sink, _decision: Decision, *_more: Any) -> None:
        first()
        raise Killed

    patch.setattr(Sink, step, die)


def leave_prepared(
    patch: pytest.MonkeyPatch, given: Any, query: str, writes: Sequence[PreparedWrite]
) -> None:
    """Leave prepared transactions by a driver that dies before its decision."""
    with patch.context() as patched, Sink(given, query) as sink:
        die_before(patched, "_record")
        with pytest.raises(Killed):
            sink.commit(0, writes)


def test_late_attempt_cannot_fence_a_decided_batch(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """InitProducerId waits, and its timeout has the reason. The same for an admin that fences the id."""
    wanted = options(cluster, "zombie")
    zombie = options(cluster, "zombie", max_block_ms="2000")
    finish = Sink._finish

    def late(self: Sink, decision: Decision) -> None:
        with pytest.raises(errors.ApiTimeoutError, match="is prepared"):
            prepare(zombie, "zombie", "late")
        found = cluster.admin().fence_producers(decision.writes[0].transactional_id, timeout=2.0)
        assert isinstance(found.errors[decision.writes[0].transactional_id], errors.ApiTimeoutError)
        finish(self, decision)

    monkeypatch.setattr(Sink, "_finish", late)
    with Sink(wanted, "zombie") as sink:
        assert sink.commit(0, [prepare(wanted, "zombie", f"{task}", task) for task in range(2)])
    assert read(cluster, "zombie") == ["0", "1"]


def test_prepared_transactions_outlive_the_timeout_without_driver(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later transaction with the same timeout is aborted by then."""
    slow = options(cluster, "away", transaction_timeout_ms=SLOW_MS)
    with monkeypatch.context() as patched, Sink(slow, "away") as sink:
        die_before(patched, "_finish")
        is_decided = False
        while not is_decided:  # a busy machine may need longer than the timeout to come so far
            try:
                sink.commit(0, [prepare(slow, "away", f"{task}", task) for task in range(2)])
            except errors.InvalidTxnStateError:
                continue
            except Killed:
                is_decided = True
    other = prepare(slow, "another", "later")
    described = cluster.admin().describe_transactions
    name = other.transactional_id
    wait_for(lambda: described(name)[name].state.value == "CompleteAbort", "it has timed out")
    assert states(cluster, "away") == {"Prepared"}
    with Sink(slow, "away") as sink:
        assert sink.is_committed(0)
    assert read(cluster, "away") == ["0", "1"]


def test_prepared_transaction_survives_its_coordinator(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node dies with the driver; the next coordinator has loaded the prepared state and its driver."""
    wanted = options(cluster, "moved")
    name = task_id("moved", 0)
    described = cluster.admin().describe_transactions
    with monkeypatch.context() as patched, Sink(wanted, "moved") as sink:
        die_before(patched, "_finish")
        with pytest.raises(Killed):
            sink.commit(0, [prepare(wanted, "moved", "x")])
    before = described(name)[name]
    assert before.prepared_ms is not None
    cluster.kill_node(before.coordinator - 1)
    try:
        after = described(name)[name]
        assert (after.state.value, after.prepared_ms) == ("Prepared", before.prepared_ms)
        assert after.coordinator != before.coordinator
        with Sink(wanted, "moved") as sink:
            assert sink.is_committed(0)
        assert read(cluster, "moved") == ["x"]
    finally:
        cluster.restart_node(before.coordinator - 1)


def test_next_driver_aborts_undecided_transactions(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise consumers would wait for ever. Open transactions of its own tasks stay."""
    wanted = options(cluster, "undecided")
    writes = [prepare(wanted, "undecided", f"{task}", task) for task in range(2)]
    leave_prepared(monkeypatch, wanted, "undecided", writes)
    assert states(cluster, "undecided") == {"Prepared"}
    new = prepare(wanted, "undecided", "new", 2)
    with Sink(wanted, "undecided") as sink:
        assert states(cluster, "undecided") == {"Ongoing"}
        assert sink.commit(0, [new])
    assert read(cluster, "undecided") == ["new"]


def test_decided_batch_is_committed_before_leftovers_are_aborted(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit failed halfway."""
    wanted = options(cluster, "middle")
    with Sink(wanted, "middle") as sink:
        with monkeypatch.context() as patched:
            die_before(patched, "_finish")
            with pytest.raises(Killed):
                sink.commit(0, [prepare(wanted, "middle", "x")])
        lost = prepare(wanted, "middle", "lost", 1)
        assert not lost.is_empty
        assert sink.abort_leftovers() == 1
    assert read(cluster, "middle") == ["x"]


def test_replaced_driver_aborts_nothing(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one without a gate: the prepared transactions are the newer driver's."""
    wanted = options(cluster, "older")
    with Sink(wanted, "older") as old, Sink(wanted, "older") as new:
        finish = Sink._finish

        def meanwhile(self: Sink, decision: Decision) -> None:
            with pytest.raises(errors.ProducerFencedError):
                old.abort_leftovers()
            finish(self, decision)

        monkeypatch.setattr(Sink, "_finish", meanwhile)
        assert new.commit(0, [prepare(wanted, "older", "x")])
    assert read(cluster, "older") == ["x"]


def test_old_node_prevents_a_decision(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot prepare: the whole batch is aborted, and the error says what to do."""
    wanted = options(cluster, "old")
    monkeypatch.setattr(sink_io, "PREPARE_TXN", PREPARE_TXN._replace(key=10_999))
    with Sink(wanted, "old") as sink:
        with pytest.raises(errors.UnsupportedVersionError, match="upgrade nodes before drivers"):
            sink.commit(0, [prepare(wanted, "old", "x")])
        assert sink.last_batch is None
    assert states(cluster, "old") == set()
    assert read(cluster, "old") == []


def test_admin_aborts_an_abandoned_prepared_transaction(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In all of its partitions; other transactions stay."""
    wanted = options(cluster, "gone")
    leave_prepared(monkeypatch, wanted, "gone", [prepare(wanted, "gone", "x")])
    other = prepare(wanted, "gone too", "y")
    found = cluster.admin().abort_prepared(task_id("gone", 0), other.transactional_id, "absent")
    assert set(found.errors) == {other.transactional_id, "absent"}
    assert isinstance(found.errors[other.transactional_id], errors.InvalidTxnStateError)
    abort_writes([other], wanted)
    assert read(cluster, "gone") == []
