"""Scheduling of the log cleaner: order, conflicts with other operations, metrics."""

from typing import Any

import pytest
from cleaner_rig import FullSpeed
from core_rig import NODE, CoreRig
from headrace.protocol.errors import ConfigError, CorruptMessageError, HeadraceError
from headrace.protocol.metadata.records import ConfigRecord
from headrace.protocol.records.codec import active_codec
from headrace.storage_node.effects import DeleteLog, Note
from headrace.storage_node.log.cleaner.config import CleanerConfig
from headrace.storage_node.log.cleaner.work import CleaningAbortedError
from headrace.storage_node.replica.log_cleaner import CleaningJob
from node_rig import WALL_MS, values_of
from replica_rig import TOPIC, Replicas

BROKER = 4
COMPACTED = {"cleanup_policy": "compact", "segment_ms": "1"}


def keyed(number: int, keys: int = 3) -> bytes:
    """A record in a batch, and so in a segment, of its own."""
    builder = active_codec().builder(max_bytes=1 << 20)
    builder.append(WALL_MS + 10 * number, b"k%d" % (number % keys), b"%d" % number)
    return builder.build()


def fill(rig: CoreRig, topic_id: bytes, count: int, **facts: Any) -> None:
    for number in range(count):
        assert rig.produce(topic_id, keyed(number), **facts).first.error_code == 0


def log_of(rig: CoreRig, topic_id: bytes) -> Any:
    return rig.core.table.partitions[topic_id, 0].log


def next_job(rig: CoreRig, wall_ms: int = WALL_MS) -> CleaningJob | None:
    return rig.core.cleaner.next_job(FullSpeed(), rig.now_ms, wall_ms)


def run(rig: CoreRig, job: CleaningJob, *, until_staged: bool = False) -> HeadraceError | None:
    """What a thread and the shell do; an error ends it."""
    error: HeadraceError | None = None
    try:
        job.cleaning.index()
        while job.cleaning.rewrite():
            if until_staged:
                return None
            finish_group(job)
    except HeadraceError as found:
        error = found
    rig.core.cleaned(job, error, rig.now_ms)
    rig.check()
    return error


def finish_group(job: CleaningJob) -> None:
    job.cleaning.install()
    job.cleaning.log.delete_retired(job.cleaning.settle())


def finish(rig: CoreRig, job: CleaningJob) -> None:
    """The rest of one that was staged."""
    finish_group(job)
    try:
        while job.cleaning.rewrite():
            finish_group(job)
    except HeadraceError as error:
        rig.core.cleaned(job, error, rig.now_ms)
    else:
        rig.core.cleaned(job, None, rig.now_ms)
    rig.check()


def test_log_with_the_largest_dirty_ratio_is_cleaned_first(rig: CoreRig) -> None:
    """Above min.cleanable.dirty.ratio; never a log that is not compacted."""
    some = rig.topic("some", **COMPACTED, min_cleanable_dirty_ratio="0.2")
    most = rig.topic("most", **COMPACTED)
    rig.topic("never", segment_ms="1")
    fill(rig, some, 8)
    job = next_job(rig)
    assert job is not None
    assert run(rig, job) is None
    for number in range(8, 12):
        rig.produce(some, keyed(number))
    fill(rig, most, 5)
    job = next_job(rig)
    assert job is not None
    assert job.partition.key[0] == most
    assert run(rig, job) is None
    job = next_job(rig)
    assert job is not None
    assert job.partition.key[0] == some
    assert run(rig, job) is None
    assert next_job(rig) is None
    assert rig.core.cleaner.facts(rig.now_ms).max_dirty_percent == 0
    assert log_of(rig, some).compaction.cleaner_offset == 11


def test_max_compaction_lag_makes_a_log_due(rig: CoreRig) -> None:
    """Counted from the first dirty record."""
    topic_id = rig.topic(**COMPACTED, min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms="5000")
    fill(rig, topic_id, 5)
    assert next_job(rig, WALL_MS + 5_000) is None
    job = next_job(rig, WALL_MS + 5_001)
    assert job is not None
    assert run(rig, job) is None
    assert next_job(rig, WALL_MS + 5_001) is None


def test_age_of_dirty_records_is_restored_after_a_restart(rig: CoreRig) -> None:
    """From the batches: the time index of a sealed segment has only the newest timestamp."""
    topic_id = rig.topic(**COMPACTED, min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms="5000")
    fill(rig, topic_id, 5)
    rig.manager.shutdown()
    again = CoreRig(rig.files.restart(), records=rig.records)
    assert next_job(again, WALL_MS + 5_000) is None
    assert next_job(again, WALL_MS + 5_001) is not None


def test_cleanings_are_bounded_by_log_cleaner_threads(rig: CoreRig) -> None:
    """Dynamic; an invalid value is logged and ignored."""
    topics = [rig.topic(name, **COMPACTED) for name in ("a", "b", "c")]
    for topic_id in topics:
        fill(rig, topic_id, 5)
    first = next_job(rig)
    assert first is not None
    assert next_job(rig) is None
    rig.metadata(ConfigRecord(BROKER, "", "log.cleaner.threads", "2"))
    second = next_job(rig)
    assert second is not None
    assert second.partition is not first.partition
    assert next_job(rig) is None
    rig.pop(Note)
    rig.metadata(ConfigRecord(BROKER, str(NODE), "log.cleaner.threads", "100"))
    assert "log.cleaner.threads" in rig.pop(Note)[0].text
    assert rig.core.cleaner.config.log_cleaner_threads == 2
    rig.core.cleaner.stop()
    assert isinstance(run(rig, first), CleaningAbortedError)
    assert isinstance(run(rig, second), CleaningAbortedError)
    assert next_job(rig) is None
    assert rig.core.cleaner.uncleanable == {}


def test_dedupe_buffer_must_suffice_for_all_threads() -> None:
    """At least 1 MiB each."""
    with pytest.raises(ConfigError, match="dedupe"):
        CleanerConfig.of({"log.cleaner.threads": 3, "log.cleaner.dedupe.buffer.size": 2 << 20})
    with pytest.raises(ConfigError):
        CleanerConfig.of({"log.cleaner.io.buffer.load.factor": 1.0})
    assert CleanerConfig.of({"log.cleaner.threads": 2}).map_bytes == 64 << 20


def test_uncleanable_log_is_skipped_until_it_is_opened_again(rig: CoreRig) -> None:
    """Counted, with its error, and logged once; a deleted one is dropped."""
    topic_id, other = rig.topic("bad", **COMPACTED), rig.topic("good", **COMPACTED)
    fill(rig, topic_id, 6)
    rig.files.flip_bit(f"/d/bad-0/{2:020d}.log", 70, 0)
    rig.pop(Note)
    job = next_job(rig)
    assert job is not None
    assert isinstance(run(rig, job), CorruptMessageError)
    assert [note.text for note in rig.pop(Note) if "not compacted any more" in note.text]
    assert "CRC" in rig.core.cleaner.uncleanable["bad-0"]
    assert rig.core.status(rig.now_ms)["metrics"]["uncleanable-partitions-count"] == {"/d": 1}
    assert next_job(rig) is None
    fill(rig, other, 6)
    job = next_job(rig)
    assert job is not None
    assert run(rig, job) is None
    metrics = rig.core.status(rig.now_ms)["metrics"]
    assert 0 < metrics["cleaner-recopy-percent"] < 100
    rig.remove(topic_id)
    assert next_job(rig) is None
    assert rig.core.status(rig.now_ms)["metrics"]["uncleanable-partitions-count"] == {}


def test_removal_waits_for_the_cleaning(rig: CoreRig) -> None:
    """The cleaner would write into the folder of a recreated topic."""
    topic_id = rig.topic(**COMPACTED)
    fill(rig, topic_id, 6)
    job = next_job(rig)
    assert job is not None
    run(rig, job, until_staged=True)
    rig.remove(topic_id)
    again = rig.topic(**COMPACTED)
    assert not rig.pop(DeleteLog)
    assert (again, 0) not in rig.core.table.partitions
    finish(rig, job)
    assert len(rig.pop(DeleteLog)) == 1
    fill(rig, again, 2)
    assert [value for _, value in values_of(rig.fetch(again).answer_frames)] == [b"0", b"1"]
    assert not [name for name in rig.files.listdir("/d/t-0") if ".swap" in name or ".cleaned" in name]


def test_truncation_waits_for_the_cleaning() -> None:
    """A swap that is finished after a crash would bring the records back."""
    replicas = Replicas(2, cleanup_policy="compact", segment_ms="1")
    rig = replicas.nodes[1]
    for number in range(6):
        replicas.leader.produce(TOPIC, keyed(number), acks=1)
    replicas.settle()
    replicas.isolate(2)
    replicas.leader.produce(TOPIC, keyed(6), acks=1)
    job = next_job(rig)
    assert job is not None
    run(rig, job, until_staged=True)
    replicas.heal()
    replicas.change(leader=2, isr=(2,))
    replicas.nodes[2].produce(TOPIC, keyed(7), acks=1)
    replicas.settle()
    assert replicas.values(1)[-1] == b"6", "not cut yet"
    finish(rig, job)
    replicas.settle()
    assert job.cleaning.log.compaction.running is None
    assert replicas.end(1) == replicas.end(2) == 7
    assert replicas.values(1)[-1] == b"7"
    assert log_of(rig, TOPIC).compaction.cleaner_offset <= 6


def test_disk_error_of_the_cleaner_takes_the_log_dir_offline() -> None:
    """The log is not uncleanable."""
    rig = CoreRig(dirs="/d,/e")
    topic_id = rig.topic(**COMPACTED)
    fill(rig, topic_id, 6)
    rig.files.fail("pwrite", ".cleaned")
    job = next_job(rig)
    assert job is not None
    assert run(rig, job) is not None
    assert not rig.core.table.partitions[topic_id, 0].is_online
    assert rig.core.cleaner.uncleanable == {}
    assert next_job(rig) is None


def test_retention_waits_for_the_cleaning() -> None:
    rig = CoreRig(log_segment_delete_delay_ms=0)
    topic_id = rig.topic(cleanup_policy="compact,delete", segment_ms="1", retention_bytes="1")
    fill(rig, topic_id, 6)
    log = log_of(rig, topic_id)
    job = next_job(rig)
    assert job is not None
    run(rig, job, until_staged=True)
    rig.core.replicas.log_starts.request_start(rig.core.table.partitions[topic_id, 0], 3)
    rig.check()
    assert rig.checkpoint_starts()
    rig.pass_time(1_000)
    rig.tick()
    rig.flush()
    assert log.log_start_offset == 3
    assert log.segments.first_base_offset == 0
    finish(rig, job)
    rig.pass_time(1_000)
    rig.tick()
    rig.flush()
    assert rig.fetch(topic_id, 3).first.error_code == 0
