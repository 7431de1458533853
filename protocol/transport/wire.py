"""Messages to frames and back: the codecs of headers and bodies, made once per type.

Everything here raises `WireError` for bytes that a peer got wrong, and nothing else. Bytes are only ever
decoded as MessagePack into the declared types; nothing is unpickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from ..messages.envelope import Api, RequestHeader, ResponseHeader
from ..messages.registry import ALL_APIS

if TYPE_CHECKING:
    from collections.abc import Iterable


# Bound: a request header is at most 4 integers of 9 bytes; room for fields that later versions add.
MAX_HEADER_BYTES = 256
# Bound: a response header carries the text of an error.
MAX_RESPONSE_HEADER_BYTES = 4096
MAX_DETAIL_LENGTH = 1000
# The correlation id of a farewell, the last message of a connection: it answers nothing and says why.
NO_REQUEST = -1
# Below this many bytes a copy costs less than zero-copy bookkeeping. It also keeps accounts honest: ZeroMQ
# decodes small frames in place, so that a frame of 100 bytes would keep its whole 8 KiB receive buffer alive.
COPY_BELOW_BYTES = 8192


class Readable(Protocol):
    """A received frame: has a length, and the buffer protocol, which has no name in Python 3.11's types."""

    def __len__(self) -> int:
        """In bytes."""


class WireError(Exception):
    """A peer sent bytes that are not a message of ours."""


# RecursionError: surplus fields are skipped recursively, and a peer may nest them as deep as it likes.
_DECODE_FAULTS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)

encode: Any = msgspec.msgpack.Encoder().encode
_request_header: Any = msgspec.msgpack.Decoder(RequestHeader).decode
_response_header: Any = msgspec.msgpack.Decoder(ResponseHeader).decode
# The hazard: 1. msgspec works a type out at its first decoder, in Python code; 2. another thread makes a
# decoder of the type meanwhile, finds it half done and takes that; 3. its first message ends the process
# with a segmentation fault. So all of them are made here, under the import's lock, before any loop runs.
_DECODERS: dict[type[Any], Any] = {
    kind: msgspec.msgpack.Decoder(kind).decode for api in ALL_APIS for kind in (api.request, api.response)
}


class ServedApi(NamedTuple):
    """One api that a server answers, with the decoder of its requests."""

    api: Api
    decode: Any


def served_apis(apis: Iterable[Api]) -> dict[int, ServedApi]:
    """By api key, each with its decoder."""
    return {api.key: ServedApi(api, _DECODERS[api.request]) for api in apis}


def response_decoder(api: Api) -> Any:
    """The decoder of this api's responses; the same one at every call."""
    return _DECODERS[api.response]


def decode_request_header(frame: Readable) -> RequestHeader:
    """Errors: WireError."""
    header: RequestHeader = decode_body(_request_header, frame, MAX_HEADER_BYTES, "request header")
    return header


def decode_response_header(frame: Readable) -> ResponseHeader:
    """Errors: WireError."""
    header: ResponseHeader = decode_body(
        _response_header, frame, MAX_RESPONSE_HEADER_BYTES, "response header"
    )
    return header


def decode_body(decoder: Any, frame: Readable, max_bytes: int, name: str) -> Any:
    """A body or header by its decoder. Errors: WireError."""
    if len(frame) > max_bytes:
        raise WireError(f"a {name} of {len(frame)} bytes; at most {max_bytes} are allowed")
    try:
        return decoder(frame)
    except _DECODE_FAULTS as error:
        raise WireError(f"a {name} that cannot be decoded: {error}") from error


def encode_response_header(
    correlation_id: int, error_code: int = 0, detail: str = "", throttle_ms: int = 0
) -> bytes:
    """The text of the error is cut to fit what a client accepts in a header."""
    told = ResponseHeader(correlation_id, error_code, detail[:MAX_DETAIL_LENGTH], throttle_ms)
    header: bytes = encode(told)
    return header
