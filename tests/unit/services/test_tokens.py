"""kcat's format tokens."""

from types import SimpleNamespace
from typing import Any

import pytest
from headrace.services.cli.tokens import RecordFormat, default_format, unescaped


def record(**changes: Any) -> Any:
    facts = {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_700_000_000_000,
        "timestamp_type": 0,
        "key": b"k\xff",
        "value": b"hello",
        "headers": (("a", b"1"), ("a", b"2"), ("n", None)),
        "leader_epoch": 0,
    }
    return SimpleNamespace(**{**facts, **changes})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%t %p %o %T", b"orders 3 42 1700000000000"),
        ("%k=%s", b"k\xff=hello"),
        ("%K %S", b"2 5"),
        ("%R", b"\x00\x00\x00\x05"),
        ("%h", b"a=1,a=2,n="),
        ("100%%", b"100%"),
        (r"a\n\t\r\0\\b", b"a\n\t\r\0\\b"),
        (r"\x41\xfe", b"A\xfe"),
        ("ü%s", "ü".encode() + b"hello"),
        ("", b""),
    ],
)
def test_format_tokens(text: str, expected: bytes) -> None:
    """Bytes are written unchanged."""
    assert RecordFormat(text).render(record()) == expected


def test_nulls_have_length_minus_one() -> None:
    """A null key and value, with the text that replaces them."""
    nulls = record(key=None, value=None, headers=())
    assert RecordFormat("%k|%s|%K|%S|%h", null=b"NULL").render(nulls) == b"NULL|NULL|-1|-1|"
    assert RecordFormat("%R").render(nulls) == b"\xff\xff\xff\xff"


@pytest.mark.parametrize("text", ["%x", "%", "abc%", "\\", r"\q", r"\x4", "%é"])
def test_unknown_tokens_are_errors(text: str) -> None:
    """Before a record is read; the error names the token."""
    with pytest.raises(ValueError, match="unknown format token"):
        RecordFormat(text)


def test_default_format_takes_any_delimiter_literally() -> None:
    """A delimiter may look like a token or an escape."""
    assert RecordFormat(default_format(None)).render(record()) == b"hello\n"
    assert RecordFormat(default_format(b"%s\\n")).render(record(key=b"k")) == b"k%s\\nhello\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [(r"\t", b"\t"), (r"\x7c\n", b"|\n"), ("é", "é".encode()), (r"\\n", b"\\n"), (r"\q", rb"\q"), ("", b"")],
)
def test_escapes_in_delimiters(text: str, expected: bytes) -> None:
    """Escapes become their bytes, all else stays."""
    assert unescaped(text) == expected
