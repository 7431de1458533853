"""Keys and values in JSON documents."""

import msgspec
import pytest
from headrace.services.rest.formats import binary_bytes, json_bytes, shown, string_bytes


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def test_embedded_json_keeps_its_numbers() -> None:
    """White space goes, digits stay."""
    assert (
        json_bytes(raw('{ "a" : [1.50, 12345678901234567890123] }'))
        == b'{"a":[1.50,12345678901234567890123]}'
    )
    assert json_bytes(raw("null")) is None


@pytest.mark.parametrize("text", ["1", '"Y!"', '"YQ"', "{}"])
def test_text_that_is_no_base64(text: str) -> None:
    """It names the fault."""
    with pytest.raises(ValueError, match="base64"):
        binary_bytes(raw(text))


def test_text_and_base64() -> None:
    """The bytes of UTF-8, and those that are encoded."""
    assert string_bytes(raw('"\\u00e4"')) == b"\xc3\xa4"
    assert binary_bytes(raw('"/w=="')) == b"\xff"


@pytest.mark.parametrize(
    ("value", "wanted", "kind", "data"),
    [
        (b'{"a": 1}', "AUTO", "JSON", b'{"a": 1}'),
        (b"plain", "AUTO", "STRING", b'"plain"'),
        (b"\xff", "AUTO", "BINARY", b'"/w=="'),
        (b"17", "STRING", "STRING", b'"17"'),
        (b"17", "BINARY", "BINARY", b'"MTc="'),
        (b"NaN", "JSON", "STRING", b'"NaN"'),
        (b"\xff", "STRING", "BINARY", b'"/w=="'),
        (b'"\xff"', "JSON", "BINARY", b'"Iv8i"'),
        (b"[" * 100_000, "JSON", "STRING", b'"' + b"[" * 100_000 + b'"'),
        (b"\x1b]0;x\x07<script>", "AUTO", "STRING", b'"\\u001b]0;x\\u0007<script>"'),
    ],
)
def test_value_that_was_read(value: bytes, wanted: str, kind: str, data: bytes) -> None:
    """As wanted, or as the bytes allow: the document stays JSON whatever they are."""
    found = shown(value, wanted)
    assert found is not None
    assert (found.type, msgspec.json.encode(found.data), found.size) == (kind, data, len(value))


def test_null() -> None:
    """Null is not an empty value."""
    assert shown(None) is None
    assert shown(b"") is not None
