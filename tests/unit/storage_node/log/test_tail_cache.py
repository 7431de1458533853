"""The tail cache: the bytes of the file, within the bound, and never batches that the log has lost."""

from fake_files import FakeFiles
from headrace.protocol.records.codec import active_codec
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.tail_cache import JOIN_BELOW_BYTES, UNREAD_BYTES, Tail, TailCache, kept
from log_rig import append, batch, open_log, read_all, split


def log_with_tail(cache: TailCache | None = None, folder: str = "/d/t-0", **keys: object) -> Log:
    log = open_log(FakeFiles(), folder, **keys)  # type: ignore[arg-type]
    log.reader.tail = Tail(TailCache(1 << 22, 1 << 22) if cache is None else cache)
    return log


def from_memory(
    log: Log, offset: int, max_bytes: int = 1 << 20, *, min_one: bool = True
) -> list[bytes] | None:
    """The batches in the tail."""
    assert log.reader.tail is not None
    found = log.reader.tail.read(offset, max_bytes, log.log_end_offset, min_one=min_one)
    return None if found is None else split(b"".join(map(bytes, found.data)))


def test_tail_has_the_bytes_of_the_file() -> None:
    """Restamped batches too, from every offset, within every limit."""
    log = log_with_tail(message_timestamp_type="LogAppendTime")
    for number in range(20):
        append(log, batch(2, tag=str(number), size=number * 4_000))
    stored = read_all(log)
    for offset in range(40):
        assert from_memory(log, offset) == stored[offset // 2 :][: len(from_memory(log, offset) or ())]
        for limit in (1, 10_000, 100_000):
            found = from_memory(log, offset, limit)
            file = split(b"".join(map(bytes, log.reader.read(offset, limit, upto_offset=40).data)))
            assert found == file
    assert from_memory(log, 39, 10, min_one=False) == []


def test_small_batches_are_joined_and_large_ones_shared() -> None:
    """A thousand small batches make one part; a large one is joined once and shared by later reads."""
    log = log_with_tail()
    for size in [10] * 1000 + [JOIN_BELOW_BYTES] + [10] * 3:
        append(log, batch(1, size=size))
    assert log.reader.tail is not None
    first, second = (log.reader.tail.read(0, 1 << 20, 1004, min_one=True) for _ in range(2))
    assert first is not None
    assert second is not None
    assert len(first.data) == 3
    assert first.data[1] is second.data[1]


def test_tail_read_ends_at_upto_offset() -> None:
    """Nothing at or above the high watermark."""
    log = log_with_tail()
    for _ in range(4):
        append(log, batch(2))
    assert log.reader.tail is not None
    found = log.reader.tail.read(0, 1 << 20, 5, min_one=True)
    assert found is not None
    assert found.next_offset == 4


def test_oldest_batch_of_all_logs_is_evicted_first() -> None:
    """Bound: held bytes; a busy log does not evict other logs beyond its share."""
    cache = TailCache(20_000, 12_000)
    quiet, busy = log_with_tail(cache), log_with_tail(cache, "/d/u-0")
    append(quiet, batch(1, size=2_000))
    for number in range(200):
        append(busy, batch(1, tag=str(number), size=1_000))
        assert cache.held_bytes <= 20_000
    assert from_memory(quiet, 0) is not None
    assert from_memory(busy, 0) is None
    assert from_memory(busy, 195) == read_all(busy, offset=195)
    third = log_with_tail(cache, "/d/v-0")
    for number in range(9):
        append(third, batch(1, tag=str(number), size=1_000))
    assert from_memory(quiet, 0) is None, "the oldest of all"
    for log in (quiet, busy, third):
        log.reader.drop_tail()
    assert (cache.held_bytes, len(cache)) == (0, 0)


def test_batch_larger_than_the_share_clears_the_tail() -> None:
    """The tail reaches the log end, or is empty."""
    log = log_with_tail(TailCache(10_000, 10_000))
    append(log, batch(1))
    append(log, batch(1, size=20_000))
    assert from_memory(log, 0) is None
    append(log, batch(1))
    assert from_memory(log, 1) is None
    assert from_memory(log, 2) == read_all(log, offset=2)


def test_small_view_on_large_frame_is_copied() -> None:
    """A frame that is mostly the batch is kept."""
    log = log_with_tail()
    data = batch(1, size=500)
    frame = bytearray(1 << 20)
    frame[: len(data)] = data
    append(log, memoryview(frame)[: len(data)])
    frame[:] = bytes(1 << 20)
    assert from_memory(log, 0) == read_all(log)


def test_small_batch_is_copied_out_of_its_block() -> None:
    """The block is thirty times as large; a large batch is kept as it is."""
    builder = active_codec().builder(max_bytes=1 << 20)
    builder.append(1, b"key", b"value")
    built = builder.finish()
    assert type(kept(memoryview(built))) is bytes
    large = memoryview(bytes(10_000))
    assert kept(large) is large


def test_reused_memory_is_copied() -> None:
    """Listeners read all connections into one bytearray."""
    log = log_with_tail()
    frame = bytearray(batch(1, size=20_000))
    append(log, memoryview(frame).toreadonly())
    frame[:] = bytes(len(frame))
    assert from_memory(log, 0) == read_all(log)


def test_log_without_reads_caches_nothing() -> None:
    """After UNREAD_BYTES without a read; the next read starts the cache again."""
    log = log_with_tail(TailCache(1 << 40, 1 << 40))
    assert log.reader.tail is not None
    append(log, batch(1))
    log.reader.tail.add(1, 2, [b""], UNREAD_BYTES - log.size_bytes)
    assert len(log.reader.tail) == 2
    append(log, batch(1))
    assert len(log.reader.tail) == 0
    append(log, batch(1))
    assert from_memory(log, 0) is None
    append(log, batch(1, tag="asked"))
    assert from_memory(log, 3) == read_all(log, offset=3)
    assert from_memory(log, 2) is None


def test_truncation_deletion_and_close_evict() -> None:
    """The tail is cleared before the file is truncated."""
    log = log_with_tail(segment_bytes=400)
    for number in range(8):
        append(log, batch(1, tag=str(number), size=100))
    log.advance_log_start_offset(2)
    assert from_memory(log, 1) is None
    assert from_memory(log, 2) == read_all(log)
    log.delete_segments_below(4)
    assert from_memory(log, 3) is None
    log.truncate_to(6)
    assert from_memory(log, 5) is None
    append(log, batch(1, tag="new"))
    assert from_memory(log, 6) == read_all(log, offset=6)
    log.truncate_fully_and_start_at(50)
    append(log, batch(1, tag="again"))
    assert from_memory(log, 50) == read_all(log)
    tail = log.reader.tail
    log.close_abruptly()
    assert tail is not None
    assert len(tail) == 0
    assert log.reader.tail is None
