"""Records from a stream of bytes, independent of its chunks."""

import pytest
from headrace.protocol.errors import MessageTooLargeError
from headrace.services.line_input import MAX_RECORD_BYTES, LineShape, split_record, split_records

LINES = LineShape(b"\n")


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("delimiter", [b"\n", b"||", b"|-|"])
def test_records_do_not_depend_on_chunks(delimiter: bytes, size: int) -> None:
    """One byte at a time or all at once; delimiters may be split."""
    data = delimiter.join([b"one", b"", b"three|", b"-four"])
    chunks = [data[i : i + size] for i in range(0, len(data), size)]
    values = [value for _, value in split_records(chunks, LineShape(delimiter))]
    assert values == data.split(delimiter)


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([], []),
        ([b""], []),
        ([b"\n"], [b""]),
        ([b"a\n"], [b"a"]),
        ([b"a"], [b"a"]),
        ([b"a\r\nb\r\n"], [b"a", b"b"]),
        ([b"a\rb\n"], [b"a\rb"]),
        ([b"\xff\x00\n"], [b"\xff\x00"]),
        ([b"a", None, b"b", None], [b"a", b"b"]),
        ([b"a\n", None, b"b"], [b"a", b"b"]),
    ],
)
def test_line_ends_and_end_of_file(chunks: list[bytes | None], expected: list[bytes]) -> None:
    """No last newline, CRLF, binary bytes; the end of a file ends its last record."""
    assert [value for _, value in split_records(chunks, LINES)] == expected


def test_carriage_return_is_kept_with_another_delimiter() -> None:
    """Only the line feed removes it."""
    assert list(split_records([b"a\r;b"], LineShape(b";"))) == [(None, b"a\r"), (None, b"b")]


def test_first_delimiter_splits_key_and_value() -> None:
    """A line without it is all value; a fixed key applies to those."""
    shape = LineShape(b"\n", key_delimiter=b":")
    assert split_record(b"k:v:w", shape) == (b"k", b"v:w")
    assert split_record(b"plain", shape) == (None, b"plain")
    assert split_record(b"plain", LineShape(b"\n", b":", key=b"fixed")) == (b"fixed", b"plain")


def test_empty_values_become_null() -> None:
    """-Z produces tombstones."""
    shape = LineShape(b"\n", b":", is_empty_null=True)
    assert split_record(b"k:", shape) == (b"k", None)
    assert split_record(b":v", shape) == (None, b"v")
    assert split_record(b"", shape) == (None, None)


@pytest.mark.parametrize(("limit", "expected"), [(None, 3), (0, 0), (2, 2), (9, 3)])
def test_count_limits_the_records(limit: int | None, expected: int) -> None:
    """-c stops early."""
    assert len(list(split_records([b"a\nb\nc"], LineShape(b"\n", max_count=limit)))) == expected


def test_record_above_the_size_limit_is_an_error() -> None:
    """An endless line does not fill the memory."""
    with pytest.raises(MessageTooLargeError):
        list(split_records([bytes(MAX_RECORD_BYTES // 2)] * 2 + [b"x"], LINES))
