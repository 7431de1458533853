"""Tables in every Arrow layout, valid and invalid, through send_arrow: exactly their rows, or a clear error
and nothing sent.

The oracle is pyarrow's own view of the rows, `to_pylist`.
"""

from typing import Any

import pyarrow as pa
import virtual_loop
from fake_cluster import FakeCluster
from headrace.clients.aio.cluster_io import AsyncCluster
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

FIXED = 3
BINARY = [
    pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.string_view(), pa.binary_view(),
    pa.binary(FIXED), pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint32(), pa.large_binary()),
    pa.null(),
]  # fmt: skip
# types that need a conversion to be a key, a value, headers, a partition or a timestamp
REFUSED = [pa.float32(), pa.bool_(), pa.list_(pa.string()), pa.struct([("x", pa.int8())]), pa.time32("s")]
PARTITIONS = [pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.uint64(), pa.null()]
TIMES = [pa.timestamp("s", "UTC"), pa.timestamp("ns", "Europe/Berlin"), pa.int32(), pa.uint64(), pa.null()]
PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
NAMED = pa.field("key", pa.string(), nullable=False)
HEADERS = [
    pa.list_(PAIR),
    pa.large_list(PAIR),
    pa.list_(pa.struct([("more", pa.int8()), ("value", pa.large_string()), ("key", pa.large_string())])),
    pa.map_(pa.string(), pa.binary()),
    pa.list_(pa.struct([NAMED, ("value", pa.binary_view())])),
    pa.null(),
    pa.list_(pa.list_(PAIR)),
    pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())])),
    pa.list_(PAIR, 1),
]

words = st.none() | st.sampled_from(["", "a", "é", "abc", "x" * 40])
pairs = st.lists(st.tuples(st.sampled_from(["", "h", "ü"]), words), max_size=3)


def is_text(kind: Any) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def as_item(word: str | None, kind: Any) -> Any:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if word is None or is_text(kind):
        return word
    data = word.encode()
    return data.ljust(FIXED, b".")[:FIXED] if pa.types.is_fixed_size_binary(kind) else data


@st.composite
def laid_out(draw: Any, kind: Any, items: list[Any], filler: Any) -> Any:
    """The items as chunks of this type, each a slice of a longer array."""
    cuts = sorted(draw(st.lists(st.integers(0, len(items)), max_size=3)))
    chunks = []
    for start, end in zip([0, *cuts], [*cuts, len(items)], strict=True):
        before, after = draw(st.integers(0, 9)), draw(st.integers(0, 2))
        made = pa.array([filler] * before + items[start:end] + [filler] * after, kind)
        chunks.append(made.slice(before, end - start))
    return pa.chunked_array(chunks, kind)


@st.composite
def binary_columns(draw: Any, count: int) -> Any:
    kind = draw(st.sampled_from(BINARY))
    items = [as_item(draw(words), kind) for _ in range(count)]
    if kind == pa.null():
        items = [None] * count
    return draw(laid_out(kind, items, None))


@st.composite
def header_columns(draw: Any, count: int) -> Any:
    kind = draw(st.sampled_from(HEADERS))
    rows: list[Any] = [draw(st.none() | pairs) for _ in range(count)]
    if kind == pa.null():
        rows = [None] * count
    elif kind.id in (pa.lib.Type_LIST, pa.lib.Type_LARGE_LIST) and pa.types.is_struct(kind.value_type):
        # sometimes a header, or the name of one, is null: that is refused
        lost = draw(st.none() | st.sampled_from(["pair", "name"])) if draw(st.integers(0, 5)) == 0 else None
        rows = [row if row is None else [as_pair(kind, name, word) for name, word in row] for row in rows]
        if lost is not None and NAMED not in list(kind.value_type) and rows:
            rows[-1] = [None] if lost == "pair" else [{"key": None, "value": None}]
    elif pa.types.is_map(kind):
        rows = [row if row is None else [(n, w and w.encode()) for n, w in row] for row in rows]
    else:
        rows = [None] * count
    return draw(laid_out(kind, rows, None))


def as_pair(kind: Any, name: str, word: str | None) -> dict[str, Any]:
    by_name = {field.name: field.type for field in kind.value_type}
    return {"key": as_item(name, by_name["key"]), "value": as_item(word, by_name["value"])}


@st.composite
def broken_columns(draw: Any, count: int) -> Any:
    """Offsets outside of the data, or text that is not UTF-8; valid without rows."""
    if count > 1 and draw(st.booleans()):
        offsets = b"\0\0\0\0" + b"\xff\xff\xff\x7f" * (count - 1) + b"\4\0\0\0"
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"data")]
        return pa.chunked_array([pa.Array.from_buffers(pa.binary(), count, buffers)])
    offsets = b"".join(number.to_bytes(4, "little") for number in range(count + 1))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"\xff" * count)]
    return pa.chunked_array([pa.Array.from_buffers(pa.string(), count, buffers)])


@st.composite
def tables(draw: Any) -> Any:
    """Columns of equal length; seldom one of a refused type, or an invalid one."""
    count = draw(st.sampled_from([0, 1, 2, 9, 40]))
    columns = {"value": draw(binary_columns(count))}
    if draw(st.booleans()):
        columns["key"] = draw(binary_columns(count))
    if draw(st.booleans()):
        columns["headers"] = draw(header_columns(count))
    if draw(st.booleans()):
        kind = draw(st.sampled_from(PARTITIONS))
        numbers = st.none() if kind == pa.null() else st.none() | st.integers(0, 2)
        columns["partition"] = draw(laid_out(kind, [draw(numbers) for _ in range(count)], None))
    if draw(st.booleans()):
        kind = draw(st.sampled_from(TIMES))
        times = st.none() if kind == pa.null() else st.none() | st.integers(0, 10**6)
        columns["timestamp"] = draw(laid_out(kind, [draw(times) for _ in range(count)], None))
    if draw(st.integers(0, 7)) == 0:
        name = draw(st.sampled_from(sorted(columns)))
        bad = pa.nulls(count, draw(st.sampled_from(REFUSED)))
        columns[name] = draw(broken_columns(count)) if draw(st.booleans()) else bad
    return pa.table(columns)


def expected(table: Any) -> list[tuple[Any, ...]]:
    """(key, value, headers, partition) of each row."""
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    none = [None] * table.num_rows
    return [
        (to_bytes(key), to_bytes(value), tuple(map(to_pair, headers or ())), partition)
        for key, value, headers, partition in zip(
            *(columns.get(name, none) for name in ("key", "value", "headers", "partition")), strict=True
        )
    ]


def to_bytes(item: Any) -> Any:
    return item.encode() if isinstance(item, str) else item


def to_pair(pair: Any) -> tuple[str, bytes | None]:
    name, value = (pair["key"], pair["value"]) if isinstance(pair, dict) else pair
    return name, to_bytes(value)


@hypothesis_settings(max_examples=150)
@given(tables())
def test_hostile_table_is_sent_completely_or_not_at_all(table: Any) -> None:
    """For any layout and any chunks."""

    async def scenario() -> None:
        fake = FakeCluster(latency_ms=0)
        fake.create("t", 3)
        async with AsyncCluster("node0:9000", make_hub=fake.make_hub) as cluster:
            producer = cluster.producer(batch_size=200)
            stored = fake.topics["t"].partitions
            try:
                result = await producer.send_arrow("t", table)
            except (TypeError, ValueError):
                await producer.flush()
                assert not any(partition.records() for partition in stored)
                return
            rows = expected(table)
            assert result.errors() == {}
            found = [partition.records() for partition in stored]
            assert sum(map(len, found)) == len(result) == len(rows)
            for where, (key, value, headers, partition) in zip(result.results(), rows, strict=True):
                record = found[where.partition][where.offset]
                assert (record.key, record.value, record.headers) == (key, value, headers)
                assert partition in (None, where.partition)

    virtual_loop.run(scenario())
