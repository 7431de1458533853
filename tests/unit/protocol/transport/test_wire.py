"""Headers and bodies: only our own MessagePack gets in, and nothing else breaks the decoder."""

import pickle

import msgspec
import pytest
from headrace.protocol.messages.envelope import RequestHeader, ResponseHeader
from headrace.protocol.messages.registry import ALL_APIS, METADATA, PRODUCE
from headrace.protocol.transport import wire


class Tripwire:
    """Unpickling this fails the test."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.fail, ("bytes from the network were unpickled",)


HOSTILE = {
    "empty": b"",
    "not msgpack": b"\xc1",
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "a map": b"\x80",
    "no fields": b"\x90",
    "wrong types": msgspec.msgpack.encode(["a", "b", "c", "d"]),
    "huge count": b"\xdd\xff\xff\xff\xff",
    "huge text": b"\x94\x00\x00\x01\xdb\xff\xff\xff\xff",
    "huge number": msgspec.msgpack.encode([0, 0, 2**64 - 1, 0])[:-1],
    "trailing bytes": msgspec.msgpack.encode([0, 0, 1, 0]) + b"\x00",
    "bad utf-8": b"\x93\x01\x00\xa2\xff\xfe",
    "pickle": pickle.dumps(Tripwire()),
    "deep nesting": b"\x95\x00\x00\x01\x00" + b"\x91" * 200 + b"\x00",
}


@pytest.mark.parametrize("name", [name for name in HOSTILE if name != "deep nesting"])
def test_hostile_headers_give_a_wire_error(name: str) -> None:
    """Each kind of nonsense is refused by both headers' decoders, with no other exception."""
    with pytest.raises(wire.WireError):
        wire.decode_request_header(HOSTILE[name])
    with pytest.raises(wire.WireError):
        wire.decode_response_header(HOSTILE[name])


@pytest.mark.parametrize("name", [name for name in HOSTILE if name not in ("deep nesting", "bad utf-8")])
def test_hostile_bodies_are_refused_or_decoded_into_the_declared_type(name: str) -> None:
    """The same bytes as the body of every request: a WireError, or a value of exactly that request's type."""
    for api in ALL_APIS:
        served = wire.served_apis([api])[api.key]
        try:
            body = wire.decode_body(served.decode, HOSTILE[name], 1000, "body")
        except wire.WireError:
            continue
        assert type(body) is api.request, api.name


def test_surplus_fields_that_nest_too_deep_are_refused() -> None:
    """A later version's field is skipped recursively: 100,000 levels must not break the process."""
    nested = b"\xdc\x00\x05\x00\x00\x01\x00" + b"\x91" * 100_000 + b"\x00"
    decoder = msgspec.msgpack.Decoder(RequestHeader).decode
    with pytest.raises(wire.WireError):
        wire.decode_body(decoder, nested, 10**6, "request header")


def test_text_that_is_not_utf8_is_refused() -> None:
    """Python reports this one as UnicodeDecodeError, not as a decoding error of the library."""
    decoder = wire.served_apis([METADATA])[METADATA.key].decode
    with pytest.raises(wire.WireError):
        wire.decode_body(decoder, b"\x91\x91\xa2\xff\xfe", 1000, "body")


def test_a_header_of_a_newer_version_is_decoded() -> None:
    """Fields added at the end are ignored; fields left out at the end have their defaults."""
    newer = msgspec.msgpack.encode([1, 0, 5, 6, "new", [1, 2]])
    assert wire.decode_request_header(newer) == RequestHeader(1, 0, 5, 6)
    assert wire.decode_request_header(msgspec.msgpack.encode([1, 0, 5])) == RequestHeader(1, 0, 5, 0)


def test_size_is_checked_before_decoding() -> None:
    """A header of a megabyte is refused unseen; a body by the limit that the caller gives."""
    with pytest.raises(wire.WireError, match="1000000 bytes"):
        wire.decode_request_header(bytes(1_000_000))
    with pytest.raises(wire.WireError, match="at most 3"):
        wire.decode_body(wire.response_decoder(PRODUCE), b"\x91\x90  ", 3, "ProduceResponse")


@pytest.mark.parametrize("detail", ["x" * 10_000, "\U0001f600" * 10_000])
def test_the_longest_error_fits_into_the_header_that_clients_accept(detail: str) -> None:
    """An error text of any length, of one-byte or four-byte characters, survives the trip, cut."""
    header = wire.decode_response_header(wire.encode_response_header(2**62, 42, detail))
    assert header == ResponseHeader(2**62, 42, detail[: wire.MAX_DETAIL_LENGTH])


def test_the_error_does_not_repeat_the_payload() -> None:
    """What a client sent does not end up in our log through the decoder's message."""
    secret = msgspec.msgpack.encode(["secret-password", 0, 1, 0])
    with pytest.raises(wire.WireError) as caught:
        wire.decode_request_header(secret)
    assert "secret" not in str(caught.value)
