"""Any batches for any `compression.type`: the log has equal records, valid CRCs and dense offsets.

Recompressions end in any order; some batches have the topic's codec already and wait for earlier ones.
"""

from typing import Any

from core_rig import CoreRig, FakeRequest
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Compression
from headrace.storage_node.effects import Recompress
from headrace.storage_node.log.config import COMPRESSION_TYPES, LogConfig
from hypothesis import given, settings
from hypothesis import strategies as st
from node_rig import WALL_MS

records = st.tuples(
    st.integers(-1, WALL_MS),
    st.none() | st.binary(max_size=6),
    st.none() | st.binary(max_size=6) | st.just(b"v" * 400),
    st.sampled_from([(), (("h", b"1"),), (("é", None), ("", b""))]),
)
batches = st.tuples(st.sampled_from(list(Compression)), st.lists(records, min_size=1, max_size=6))


def encoded(codec: Compression, rows: list[Any], sequence: int) -> bytes:
    builder = active_codec().builder(
        max_bytes=1 << 20, compression=codec, producer_id=5, producer_epoch=0, base_sequence=sequence
    )
    for row in rows:
        builder.append(*row)
    return builder.build()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(batches, min_size=1, max_size=10),
    st.sampled_from(COMPRESSION_TYPES),
    st.sampled_from(["CreateTime", "LogAppendTime"]),
    st.data(),
)
def test_log_has_the_records_that_were_sent(
    sent: list[Any], compression: str, timestamp_type: str, data: st.DataObject
) -> None:
    """One idempotent producer with many batches in flight: all of them are appended, in their order."""
    rig = CoreRig()
    topic_id = rig.topic(compression_type=compression, message_timestamp_type=timestamp_type)
    requests: list[FakeRequest] = []
    sequence = 0
    for codec, rows in sent:
        requests.append(rig.produce(topic_id, encoded(codec, rows, sequence)))
        sequence += len(rows)
    while started := rig.pop(Recompress):
        chosen = data.draw(st.sampled_from(started))
        rig.effects += [effect for effect in started if effect is not chosen]
        chosen.item.run()
        rig.core.recompressed(chosen.item, rig.now_ms, WALL_MS)
        rig.check()
    ends, end = [], 0
    for _, rows in sent:
        ends.append(end)
        end += len(rows)
    assert [request.first.error_code for request in requests] == [0] * len(sent)
    assert [request.first.base_offset for request in requests] == ends
    log = rig.core.table.partitions[topic_id, 0].log
    stored = b"".join(map(bytes, log.reader.read(0, 1 << 30, upto_offset=log.log_end_offset).data))
    is_append_time = timestamp_type == "LogAppendTime"
    target = LogConfig(compression_type=compression).target_compression
    offset = 0
    for codec, rows in sent:
        size = 12 + int.from_bytes(stored[8:12], "big")
        header = active_codec().check(stored[:size])
        assert header.compression_id == (codec if target is None else target)
        assert header.max_timestamp == (WALL_MS if is_append_time else max(row[0] for row in rows))
        decoded = active_codec().decode(stored[:size])
        assert [each.offset for each in decoded] == list(range(offset, offset + len(rows)))
        assert [(each.key, each.value, each.headers) for each in decoded] == [row[1:] for row in rows]
        times = [WALL_MS] * len(rows) if is_append_time else [row[0] for row in rows]
        assert [each.timestamp for each in decoded] == times
        offset += len(rows)
        stored = stored[size:]
    assert not stored
