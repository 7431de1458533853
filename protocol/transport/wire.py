"""Encoding of messages as frames: the codecs of headers and bodies, created once per type.

Functions raise `WireError` for invalid bytes of a peer, and nothing else. Bytes are only decoded as
MessagePack into declared types; nothing is unpickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from ..messages.envelope import Api, RequestHeader, ResponseHeader
from ..messages.registry import ALL_APIS

if TYPE_CHECKING:
    from collections.abc import Iterable


# Bound: a request header is at most 4 integers of 9 bytes, plus room for fields of later versions.
MAX_HEADER_BYTES = 256
# Bound: a response header contains an error message.
MAX_RESPONSE_HEADER_BYTES = 4096
MAX_DETAIL_LENGTH = 1000
# The correlation id of a closing message, the last one of a connection: it is not a response, and has the
# reason.
NO_REQUEST = -1
# Below this size a copy is cheaper than zero-copy bookkeeping. It also keeps accounting accurate: ZeroMQ
# decodes small frames in place, so that a frame of 100 bytes would reference its whole 8 KiB receive buffer.
COPY_BELOW_BYTES = 8192


class Readable(Protocol):
    """A received frame: it has a length and the buffer protocol, which has no type in Python 3.11."""

    def __len__(self) -> int:
        """In bytes."""


class WireError(Exception):
    """A peer sent bytes that are not a valid message."""


# RecursionError: surplus fields are skipped recursively, and a peer may nest them arbitrarily deep.
_DECODE_FAULTS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)

encode: Any = msgspec.msgpack.Encoder().encode
_request_header: Any = msgspec.msgpack.Decoder(RequestHeader).decode
_response_header: Any = msgspec.msgpack.Decoder(ResponseHeader).decode
# The hazard: 1. msgspec analyses a type at its first decoder, in Python code; 2. another thread creates a
# decoder of the type meanwhile and uses the incomplete analysis; 3. its first message crashes the process. So
# all decoders are created here, under the import lock, before any loop runs.
_DECODERS: dict[type[Any], Any] = {
    kind: msgspec.msgpack.Decoder(kind).decode for api in ALL_APIS for kind in (api.request, api.response)
}


class ServedApi(NamedTuple):
    """One api that a server supports, with the decoder of its requests."""

    api: Api
    decode: Any


def served_apis(apis: Iterable[Api]) -> dict[int, ServedApi]:
    """The supported apis with their decoders, by api key."""
    return {api.key: ServedApi(api, _DECODERS[api.request]) for api in apis}


def response_decoder(api: Api) -> Any:
    """The decoder of this api's responses; the same object at every call."""
    return _DECODERS[api.response]


def decode_request_header(frame: Readable) -> RequestHeader:
    """Decode the first frame of a request. Errors: WireError."""
    header: RequestHeader = decode_body(_request_header, frame, MAX_HEADER_BYTES, "request header")
    return header


def decode_response_header(frame: Readable) -> ResponseHeader:
    """Decode the first frame of a response. Errors: WireError."""
    header: ResponseHeader = decode_body(
        _response_header, frame, MAX_RESPONSE_HEADER_BYTES, "response header"
    )
    return header


def decode_body(decoder: Any, frame: Readable, max_bytes: int, name: str) -> Any:
    """Decode a body or header. Errors: WireError."""
    if len(frame) > max_bytes:
        raise WireError(f"a {name} of {len(frame)} bytes; at most {max_bytes} are allowed")
    try:
        return decoder(frame)
    except _DECODE_FAULTS as error:
        raise WireError(f"a {name} that cannot be decoded: {error}") from error


def encode_response_header(
    correlation_id: int, error_code: int = 0, detail: str = "", throttle_ms: int = 0
) -> bytes:
    """A response header; the error message is truncated to the size that clients accept."""
    fields = ResponseHeader(correlation_id, error_code, detail[:MAX_DETAIL_LENGTH], throttle_ms)
    header: bytes = encode(fields)
    return header
