"""Whole answers for requests that come again byte for byte: what every client asks first. Pure.

Which versions are served and where topics are depends on the request and the metadata alone. Such a request
is neither read nor asked of the node: its answer goes out with the request's own number in it. Whoever gives
it has asked first whether this client may have it, and that nobody has quotas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .codes import API_VERSIONS, METADATA

if TYPE_CHECKING:
    from .calls import Call, KafkaApi

# Bound: answers that are remembered, and the sizes of one and of its request.
MAX_ANSWERS = 256
MAX_REQUEST_BYTES, MAX_ANSWER_BYTES = 512, 16 * 1024
_APIS = (METADATA, API_VERSIONS)


class ReadyAnswer(NamedTuple):
    """What is known of a request, and the bytes before and behind its number in the answer."""

    image: Any  # of which the answer was made
    api: KafkaApi
    body: Any
    client_id: str
    software: tuple[str, str] | None  # if the request says it
    before: bytes
    behind: bytes

    def framed(self, frame: memoryview) -> bytes:
        """For this request."""
        return b"".join((self.before, frame[4:8], self.behind))


def _software(body: Any) -> tuple[str, str] | None:
    if not hasattr(body, "client_software_name"):
        return None  # of another kind, or of a version that does not say it
    return body.client_software_name, body.client_software_version


def key_of(frame: memoryview) -> bytes | None:
    """All of a request but its number; None if its answer is of no use to others."""
    if frame[0] or frame[1] not in _APIS or len(frame) > MAX_REQUEST_BYTES:
        return None
    return b"".join((frame[:4], frame[8:]))


class ReadyAnswers:
    """By listener and request; those of other metadata are as good as forgotten."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], ReadyAnswer] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, listener: str, frame: memoryview, image: object) -> ReadyAnswer | None:
        """What is to be said to a whole request, without its length, while the metadata are `image`."""
        key = key_of(frame)
        known = None if key is None else self._known.get((listener, key))
        return known if known is not None and known.image is image else None

    def remember(self, call: Call, head: bytes, body: bytes) -> None:
        """The answer that `call` gets; it depends on nothing but the request, the listener and the metadata.
        `head` is its length and its header."""
        if call.ready_key is None or len(body) > MAX_ANSWER_BYTES:
            return
        key = call.peer.listener, call.ready_key
        self._known.pop(key, None)
        if len(self._known) >= MAX_ANSWERS:
            del self._known[next(iter(self._known))]
        self._known[key] = ReadyAnswer(
            call.host.image,
            call.api,
            call.body,
            call.peer.client_id,
            _software(call.body),
            head[:4],
            head[8:] + body,
        )
