"""Cache of whole responses to requests that repeat byte for byte, the first requests of every client. Pure.

Served versions and the leaders of topics depend on the request and the metadata alone. Such a request is
neither decoded nor passed to the node: the response is sent with the request's correlation id in it. With an
authorizer metadata depends on the client, too, and is not kept here; with quotas the cache is not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...storage_node.edge.request_meter import write_immediate
from .codes import API_VERSIONS, METADATA

if TYPE_CHECKING:
    from ...runtime.telemetry.samples import Samples
    from ...storage_node.edge.gateway import GatewayHost

# Bound: the number of responses, and the sizes of one and of its request.
MAX_ANSWERS = 256
MAX_REQUEST_BYTES, MAX_ANSWER_BYTES = 512, 16 * 1024
_APIS = (METADATA, API_VERSIONS)


class ReadyResponse(NamedTuple):
    """A cached response: its bytes before and behind the correlation id, and facts of the request."""

    image: Any  # the metadata that it was made from
    client_id: str
    software: tuple[str, str] | None  # if the request has it
    before: bytes
    behind: bytes

    def framed(self, frame: memoryview) -> bytes:
        """The response for this request."""
        return b"".join((self.before, frame[4:8], self.behind))


class AnsweredCall(Protocol):
    """A Call, as far as its response is kept here."""

    api: Any
    body: Any
    peer: Any
    ready_key: bytes | None

    @property
    def host(self) -> GatewayHost:
        """The node."""


def _software(body: Any) -> tuple[str, str] | None:
    if not hasattr(body, "client_software_name"):
        return None  # another api, or a version without the fields
    return body.client_software_name, body.client_software_version


def key_of(frame: memoryview) -> bytes | None:
    """The request without its correlation id; None if its response cannot be shared."""
    if frame[0] or frame[1] not in _APIS or len(frame) > MAX_REQUEST_BYTES:
        return None
    return b"".join((frame[:4], frame[8:]))


class ReadyResponses:
    """By listener and request; entries of older metadata are never used."""

    def __init__(self) -> None:
        self.sent = dict.fromkeys(_APIS, 0)  # responses from here, by api key
        self._known: dict[tuple[str, bytes], ReadyResponse] = {}

    def measure(self, samples: Samples) -> None:
        """Add the responses to the node's requests."""
        write_immediate(samples, self.sent)

    def __len__(self) -> int:
        return len(self._known)

    def find(self, listener: str, frame: memoryview, image: object) -> ReadyResponse | None:
        """The response for a whole frame, without its length, while the metadata is `image`."""
        key = key_of(frame)
        known = None if key is None else self._known.get((listener, key))
        return known if known is not None and known.image is image else None

    def remember(self, call: AnsweredCall, head: bytes, body: bytes) -> None:
        """Keep the response of `call`, which depends on nothing but request, listener and metadata. `head` is
        its length and header."""
        if call.ready_key is None or len(body) > MAX_ANSWER_BYTES:
            return
        key = call.peer.listener, call.ready_key
        self._known.pop(key, None)
        if len(self._known) >= MAX_ANSWERS:
            del self._known[next(iter(self._known))]
        self._known[key] = ReadyResponse(
            call.host.image,
            call.peer.client_id,
            _software(call.body),
            head[:4],
            head[8:] + body,
        )
