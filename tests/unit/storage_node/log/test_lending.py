"""Zero-copy runs: whole batches below the limit, in the page cache, until the log is truncated."""

import os

import pytest
from fake_files import FakeFiles
from headrace.protocol.records.control import EndTransaction
from headrace.protocol.records.header import read_batch_header
from headrace.storage_node.log.lending import LentRun, RevokedError
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.log_reader import CachedRead
from headrace.storage_node.log.markers import encode_marker
from headrace.storage_node.log.verification import UNCHECKED
from hypothesis import given
from hypothesis import strategies as st
from log_rig import NOW, append, batch, open_log, split

BATCHES, PER_BATCH = 60, 3
END = BATCHES * PER_BATCH


class Pieces:
    """What is not to be lent; fulfils Unlent."""

    def __init__(self, *pieces: tuple[int, int]) -> None:
        self.pieces = pieces

    def overlaps(self, _segment: object, start: int, end: int) -> bool:
        return any(low < end and start < high for low, high in self.pieces)


NOTHING = Pieces()


def full_log(files: FakeFiles | None = None, **keys: int) -> Log:
    """Batches of about 9 KB with three records each."""
    log = open_log(files or FakeFiles(), **keys)
    for number in range(BATCHES):
        append(log, batch(PER_BATCH, size=3000, tag=str(number)))
    return log


def cached(log: Log, offset: int, max_bytes: int = 1 << 20, upto: int = END) -> CachedRead:
    """A cached read of a client that can send runs."""
    found = log.reader.read_cached(offset, max_bytes, upto_offset=upto, lend_except=NOTHING)
    assert found is not None
    return found


def sent(run: LentRun) -> bytes:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    parts, at = [], 0
    while at < len(run):
        more = run.send(writer, at)
        parts.append(os.read(reader, more))
        at += more
    os.close(reader)
    os.close(writer)
    return b"".join(parts)


@pytest.fixture
def log() -> Log:
    """One segment; an earlier read has ended after its first batch."""
    made = full_log()
    cached(made, 0, 10_000)
    return made


def lent_at(log: Log, offset: int, max_bytes: int = 1 << 20, upto: int = END) -> LentRun | None:
    """The lent run from this offset on, or None."""
    (part, *rest) = cached(log, offset, max_bytes, upto).data
    assert not rest
    return part if isinstance(part, LentRun) else None


def content(log: Log, start: int, end: int) -> bytes:
    """The bytes between two offsets, by an ordinary read."""
    return b"".join(map(bytes, log.reader.read(start, 1 << 30, upto_offset=end).data))


def test_second_read_gets_a_run(log: Log) -> None:
    """The first read is a copy, and knows where the next batch starts; the rest is one run."""
    run = lent_at(log, PER_BATCH)
    assert run is not None
    assert run.next_offset == END
    assert sent(run) == content(log, PER_BATCH, END)


def test_reader_without_lending_gets_bytes(log: Log) -> None:
    """Followers, and clients over ZeroMQ."""
    found = log.reader.read_cached(PER_BATCH, 1 << 20, upto_offset=END)
    assert found is not None
    assert not any(isinstance(part, LentRun) for part in found.data)


def test_unlent_ranges_are_read() -> None:
    """A run that overlaps them is not lent; other runs of the segment are."""
    log = _SHARED
    cached(log, 0, 10_000)
    start = log.segments[0].start_of(PER_BATCH).position
    for pieces, is_lent in (
        (((0, start),), True),
        (((0, start + 1),), False),
        (((start + 700_000, 1 << 30),), True),
        (((1 << 30, 1 << 31), (start + 70_000, start + 70_001)), False),
    ):
        found = log.reader.read_cached(PER_BATCH, 600_000, upto_offset=END, lend_except=Pieces(*pieces))
        assert found is not None
        assert any(isinstance(part, LentRun) for part in found.data) is is_lent


@given(max_bytes=st.integers(1, 700_000), upto=st.integers(2, BATCHES).map(PER_BATCH.__mul__))
def test_runs_are_whole_batches_within_the_limits(max_bytes: int, upto: int) -> None:
    """At most `max_bytes`, and below `upto_offset`."""
    log = _SHARED
    cached(log, 0, 10_000)
    found = cached(log, PER_BATCH, max_bytes, upto)
    for part in found.data:
        if isinstance(part, LentRun):
            assert len(part) <= max_bytes
            data = sent(part)
            batches = split(data)
            assert read_batch_header(batches[0]).base_offset == PER_BATCH
            assert read_batch_header(batches[-1]).next_offset == part.next_offset == found.next_offset <= upto
            assert data == content(log, PER_BATCH, part.next_offset)


_SHARED = full_log()


def test_short_runs_are_read(log: Log) -> None:
    """If the limit, or the rest of the segment, is small."""
    assert lent_at(log, PER_BATCH, 60_000) is None
    assert lent_at(log, PER_BATCH, upto=3 * PER_BATCH) is None
    cached(log, END - 2 * PER_BATCH, 10_000)
    assert lent_at(log, END - PER_BATCH) is None


def test_runs_end_with_their_segment() -> None:
    """All runs together are the log."""
    log = full_log(segment_bytes=200_000)
    assert len(log.segments) > 2
    offset, data, runs = 0, b"", 0
    while offset < END:
        found = cached(log, offset, 100_000)
        for part in found.data:
            runs += isinstance(part, LentRun)
            data += sent(part) if isinstance(part, LentRun) else bytes(part)
        offset = found.next_offset
    assert data == content(log, 0, END)
    assert runs >= 2


def test_cold_pages_are_not_lent(files: FakeFiles) -> None:
    """A thread reads them."""
    log = full_log(files)
    cached(log, 0, 10_000)
    log.flush()
    log.segments[0].file.drop_cached(0, 1 << 30)
    assert log.reader.read_cached(PER_BATCH, 1 << 20, upto_offset=END, lend_except=NOTHING) is None


@pytest.mark.parametrize("where", ["first", "behind"])
def test_run_with_wrong_header_is_not_lent(log: Log, where: str) -> None:
    """The first header of the run, and the header after it, must match."""
    segment = log.segments[0]
    run = lent_at(log, PER_BATCH, 300_000)
    assert run is not None
    position = segment.run_ends.find(PER_BATCH)
    assert position is not None
    at = position.position if where == "first" else position.position + len(run)
    segment.file.pwrite(at, [b"\x77"])  # the first byte of its base offset
    segment.run_ends.note(PER_BATCH, position.position)
    found = log.reader.read_cached(PER_BATCH, 300_000, upto_offset=END, lend_except=NOTHING)
    assert found is None  # a thread looks what is wrong


def test_run_outlives_its_segment(log: Log) -> None:
    """The file stays open when the segment is deleted."""
    wanted = content(log, PER_BATCH, END)
    run = lent_at(log, PER_BATCH)
    assert run is not None
    log.delete()
    assert sent(run) == wanted


@pytest.mark.parametrize("offset", [0, PER_BATCH, 20 * PER_BATCH, END - PER_BATCH])
def test_truncation_revokes_runs(log: Log, offset: int) -> None:
    """Before the file is truncated, and once per run."""
    run = lent_at(log, PER_BATCH)
    assert run is not None
    response: list[int] = []
    segment = log.segments[0]
    run.on_revoked = lambda: response.append(segment.file.size())
    size = segment.file.size()
    log.truncate_to(offset)
    assert response == [size]
    with pytest.raises(RevokedError):
        run.send(-1, 0)
    log.truncate_to(offset)
    assert response == [size]


def test_released_run_is_not_revoked(log: Log) -> None:
    """The log keeps only weak references."""
    run = lent_at(log, PER_BATCH)
    assert run is not None
    assert len(log.reader.lendings) == 1
    del run
    assert len(log.reader.lendings) == 0
    log.truncate_to(PER_BATCH)


def test_aborted_transactions_of_a_run() -> None:
    """Those inside the run are found, later ones are not."""
    log = open_log(FakeFiles())
    for producer in (7, 8):
        append(log, batch(size=10_000))
        settings = {
            "producer_id": producer,
            "producer_epoch": 0,
            "base_sequence": 0,
            "is_transactional": True,
        }
        log.append_as_leader(batch(size=90_000, **settings), leader_epoch=0, wall_ms=NOW, guard=UNCHECKED)
        marker = encode_marker(producer, 0, EndTransaction(is_commit=False, coordinator_epoch=0), NOW)
        log.append_as_leader(marker, leader_epoch=0, wall_ms=NOW, internal=True)
    cached(log, 0, 1)
    whole = cached(log, 1, upto=log.log_end_offset)
    (run,) = whole.data
    assert isinstance(run, LentRun)
    read = log.reader.read(1, 1 << 20, upto_offset=log.log_end_offset)
    assert log.reader.aborted_in(1, whole.data) == log.reader.aborted_in(1, read.data) == ((7, 1), (8, 4))
    (part,) = cached(log, 1, upto=4).data
    assert isinstance(part, LentRun)
    assert log.reader.aborted_in(1, [part]) == ((7, 1),)
