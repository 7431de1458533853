"""A leader whose log is a copy of a cleaned log still has the epoch ends that followers truncate by.

Node 3 has lost its disk and copies the log of node 1 after a cleaning; then it leads, and node 2 returns.
"""

from cleaner_rig import clean, records
from fake_files import FakeFiles
from headrace.protocol.records.codec import active_codec
from node_rig import WALL_MS
from replica_rig import TOPIC, Replicas


def compacted() -> Replicas:
    """Three nodes, led by node 2 in epoch 1 after a record of epoch 0."""
    replicas = Replicas.settled(cleanup_policy="compact")
    put(replicas, b"first", b"a")
    replicas.change(leader=2)
    replicas.settle()
    return replicas


def put(replicas: Replicas, key: bytes, value: bytes, *, node: int | None = None) -> None:
    """Append one record at the leader, or at `node`, which still believes to lead."""
    builder = active_codec().builder(max_bytes=1 << 20)
    builder.append(WALL_MS, key, value)
    rig = replicas.leader if node is None else replicas.nodes[node]
    assert rig.produce(TOPIC, builder.build(), acks=1).first.error_code == 0
    replicas.settle()


def copy_a_cleaned_log(replicas: Replicas) -> None:
    """Node 1 cleans its log; node 3 starts with an empty disk and catches up."""
    log = replicas.partition(1).log
    log.roll(WALL_MS)
    clean(log)
    replicas.crash(3)
    replicas.change(isr=[1])
    replicas.restart(3, FakeFiles())
    replicas.settle()
    assert replicas.registration.isr == (1, 3)
    assert replicas.partition(3).log.log_end_offset == log.log_end_offset


def lead_with_the_copy(replicas: Replicas) -> None:
    """Node 3 leads and node 2 follows it; no high watermark decreases."""
    before = replicas.watermark(2)
    replicas.change(leader=3)
    replicas.heal()
    while replicas.step():
        assert replicas.watermark(2) >= before
    replicas.settle()
    assert replicas.end(2) == replicas.end(3)


def test_replica_of_a_compacted_epoch_keeps_committed_records() -> None:
    """Epoch 1 has no records left. Node 2 has all of it and nothing else: no truncation."""
    replicas = compacted()
    for number in range(3):
        put(replicas, b"k", b"%d" % number)
    replicas.isolate(2)
    replicas.change(leader=1, isr=[1, 3])
    for number in range(3, 6):
        put(replicas, b"k", b"%d" % number)
    copy_a_cleaned_log(replicas)
    assert replicas.watermark(2) == 4
    lead_with_the_copy(replicas)
    assert replicas.partition(2).log.reader.invalidations == 0


def test_replica_of_a_compacted_epoch_loses_uncommitted_records() -> None:
    """Node 2 wrote one alone; the record that the next leader wrote at its offset is compacted away."""
    replicas = compacted()
    put(replicas, b"second", b"b")
    replicas.isolate(2)
    put(replicas, b"lone", b"uncommitted", node=2)
    replicas.change(leader=1, isr=[1, 3])
    for number in range(3):
        put(replicas, b"k", b"%d" % number)
    copy_a_cleaned_log(replicas)
    lead_with_the_copy(replicas)
    assert records(replicas.partition(2).log) == records(replicas.partition(3).log)
    assert [each.value for each in records(replicas.partition(2).log)] == [b"a", b"b", b"2"]
