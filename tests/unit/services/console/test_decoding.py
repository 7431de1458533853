"""Bytes of records as text: detection, truncation, and hostile characters."""

import json

import msgpack
import pytest
from headrace.services.console.decoding import decode, hex_rows, shown, visible
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (b'{"a": 1}', "json", '{"a": 1}'),
        (b"plain text", "utf-8", "plain text"),
        (b"12345", "utf-8", "12345"),
        (b'{"a": ', "utf-8", '{"a": '),
        (msgpack.packb({"a": [1, b"\xff"]}), "msgpack", '{"a": [1, "0xff"]}'),
        ((-5).to_bytes(8, "big", signed=True), "int64", "-5"),
        ((7).to_bytes(4, "big"), "int32", "7"),
        (
            b"\x00\x00\x00\x00\x09\x02\xff\xfe",
            "int64",
            str(int.from_bytes(b"\x00\x00\x00\x00\x09\x02\xff\xfe", "big")),
        ),
        (b"\x00\x00\x00\x00\x09\x02\xff", "hex", "000000000902ff"),
        (b"\xff\xfe\xfd", "hex", "fffefd"),
        (b"", "utf-8", ""),
    ],
)
def test_formats_are_detected(data: bytes, form: str, text: str) -> None:
    """JSON, text, MessagePack, integers of 4 and 8 bytes, and hex for the rest."""
    decoded = decode(data)
    assert (decoded.format, shown(decoded, len(data)).text) == (form, text)


@pytest.mark.parametrize("form", ["json", "msgpack", "int32", "int64", "float64", "uuid", "utf-8"])
def test_wrong_format_is_shown_as_hex_with_the_reason(form: str) -> None:
    decoded = decode(b"\xc1\xff\xfe", form)
    assert (decoded.format, decoded.note) == ("hex", f"not {form}")


def test_null_is_not_an_empty_value() -> None:
    assert shown(decode(None), -1).is_null
    assert not shown(decode(b""), 0).is_null


def test_terminal_escapes_and_bidirectional_controls_are_visible() -> None:
    """An escape sequence, a bell, a right-to-left override and a lone C1 control."""
    text = visible("a\x1b[31mred\x07 \u202egpj.exe \x9b b\nc")
    assert text == "a\\x1b[31mred\\x07 \\u202egpj.exe \\x9b b\nc"


def test_large_values_are_truncated_and_say_so() -> None:
    data = b"x" * (10 << 20)
    found = shown(decode(data), len(data))
    assert found.is_truncated
    assert (len(found.text), found.size) == (2_000, 10 << 20)
    assert not shown(decode(b"x" * 2_000), 2_000).is_truncated


def test_deep_json_is_not_parsed() -> None:
    """A structure that would exhaust the stack of a renderer is text."""
    deep = b"[" * 5_000 + b"]" * 5_000
    assert decode(deep).format == "utf-8"


def test_hex_rows_have_offset_bytes_and_letters() -> None:
    assert hex_rows(b"0123456789abcdef\x00z") == [
        ("00000000", "30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66", "0123456789abcdef"),
        ("00000010", "00 7a", "·z"),
    ]


@given(st.binary(max_size=200), st.sampled_from(["auto", "utf-8", "json", "msgpack", "hex", "float64"]))
def test_any_bytes_in_any_format_become_harmless_text(data: bytes, form: str) -> None:
    """No decoder raises, and no control character is left but line ends and tabs."""
    found = shown(decode(data, form), len(data))
    assert all(letter >= " " or letter in "\n\t" for letter in found.text)
    json.dumps(found.text).encode()
