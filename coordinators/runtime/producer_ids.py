"""Blocks of producer ids for a node; the next block is fetched before the current one is used up. Pure.

`next_id` issues ids; `poll` returns the request to the controller, `answered` takes its response. Invariant:
no id is issued twice, whatever responses are lost, repeated or wrong; ids of lost blocks are never used.
Source: Kafka RPCProducerIdManager.java; KIP-730.
"""

from __future__ import annotations

from ...protocol.errors import CoordinatorLoadInProgressError, KafkaError
from ...protocol.messages.transactions import AllocateProducerIdsRequest, AllocateProducerIdsResponse

_MOST = 2**63 - 1
_BACKOFF_MS = 50
_ASKS_AGAIN_AT = 0.9  # of a block used


class ProducerIds:
    """The producer ids of one node process. The first block is fetched at the first use."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._current, self._ahead = range(0), range(0)
        self._next = 0
        self._is_wanted = self._is_asked = False
        self._not_before_ms = 0

    def want(self) -> None:
        """Fetch the first block ahead of use: producers can then start while controllers are unreachable."""
        self._is_wanted = not self._current and not self._ahead

    def next_id(self) -> int:
        """A new producer id. Errors: CoordinatorLoadInProgressError while none is available; call `poll`
        then."""
        if self._next == self._current.stop and self._ahead:
            self._current, self._ahead = self._ahead, range(0)
            self._next = self._current.start
        used = self._next + 1 - self._current.start
        self._is_wanted = not self._ahead and used > len(self._current) * _ASKS_AGAIN_AT
        if self._next == self._current.stop:
            raise CoordinatorLoadInProgressError("producer ids are being fetched")
        self._next += 1
        return self._next - 1

    def poll(self, now_ms: int, broker_epoch: int) -> AllocateProducerIdsRequest | None:
        """The request to send to the controller now; `answered` must follow. At most one is in flight."""
        if not self._is_wanted or self._is_asked or now_ms < self._not_before_ms:
            return None
        self._is_asked = True
        return AllocateProducerIdsRequest(self._node_id, broker_epoch)

    @property
    def due_ms(self) -> int | None:
        """When to call `poll` again without an event; None: only after `next_id` or a response."""
        return self._not_before_ms if self._is_wanted and not self._is_asked else None

    def answered(self, answer: AllocateProducerIdsResponse | KafkaError, now_ms: int) -> None:
        """Take the controller's response, or the error of the request."""
        self._is_asked = False
        block = range(0) if isinstance(answer, KafkaError) or answer.error_code else _block(answer)
        if not block or block.start < max(self._current.stop, self._ahead.stop):
            self._not_before_ms = now_ms + _BACKOFF_MS
            return
        self._ahead, self._is_wanted = block, False


def _block(answer: AllocateProducerIdsResponse) -> range:
    start, length = answer.producer_id_start, answer.producer_id_len
    is_sound = start >= 0 and 0 <= length <= _MOST - start
    return range(start, start + length) if is_sound else range(0)
