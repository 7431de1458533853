"""What the listener does about quotas: answers say for how long their client is to wait, and go at once; then
the connection is not read for as long. A fetch above its quota has no records. Pure: clocks are given.

Source: Kafka KafkaApis.scala, ClientRequestQuotaManager.java; KIP-219.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.metadata.quotas import (
    CONNECTION_RATE,
    CONSUMER_RATE,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
)
from ...runtime.client_quotas import largest

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...runtime.client_quotas import Held, Windows
    from ...storage_node.edge.gateway import GatewayHost
    from .calls import Call, KafkaPeer

_PRODUCE = 0


class Throttle:
    """All clients of one listener under the quotas that the metadata has."""

    def __init__(self, host: GatewayHost, now_ms: Callable[[], int], clock_s: Callable[[], float]) -> None:
        """`clock_s` measures how long the node is busy with a request."""
        self._now_ms, self._clock_s = now_ms, clock_s
        self._node = host.quotas
        self.quotas = self._node.meters

    @property
    def active(self) -> Throttle | None:
        """This, if anybody has any quota. Asked once for every request: no more than that is done without."""
        return self if self._node.is_active else None

    # --- of every request --------------------------------------------------------------------------------

    def begin(self, call: Call) -> None:
        """The node is busy with it from now on."""
        call.busy_since_s = self._clock_s() if self.quotas.has(REQUEST_PERCENTAGE) else None

    def end(self, call: Call) -> None:
        """Its turn is over; what follows later is not counted."""
        self._record_time(call)
        call.busy_since_s = None

    def settle(self, call: Call) -> None:
        """It is about to be answered: how long its client is to wait is in `call.throttle_ms` then."""
        wait_ms = self._record_time(call)
        if call.api.key == _PRODUCE:
            wait_ms = max(wait_ms, self._record(PRODUCER_RATE, call.peer, _written(call)))
        call.throttle_ms = max(call.throttle_ms, wait_ms)

    def _record_time(self, call: Call) -> int:
        since_s = call.busy_since_s
        if since_s is None:
            return 0
        call.busy_since_s = self._clock_s()
        return self._record(REQUEST_PERCENTAGE, call.peer, 100 * (call.busy_since_s - since_s))

    # --- of fetches --------------------------------------------------------------------------------------

    def room(self, call: Call, max_bytes: int) -> int:
        """How many bytes a fetch may have: more could never be given to it."""
        held = self._held(CONSUMER_RATE, call.peer)
        return max_bytes if held is None else min(max_bytes, self._most(held))

    def _most(self, held: Held) -> int:
        return max(int(largest(held, self._windows)), 1)

    def holds_back(self, call: Call, size: int) -> bool:
        """Whether so many bytes of records are not to be given, but that the client is to wait for them. One
        batch may be more than all windows hold: it is given to who had nothing in them."""
        held = self._held(CONSUMER_RATE, call.peer)
        wait_ms = self._record_time(call)
        if held is not None:
            now_ms, windows = self._now_ms(), self._windows
            asked = min(size, self._most(held))
            wait_ms = max(wait_ms, self.quotas.record(held, asked, now_ms, windows))
            self.quotas.record(held, -asked if wait_ms else size - asked, now_ms, windows)
            if wait_ms:
                self._count(CONSUMER_RATE)
        call.throttle_ms = wait_ms
        return wait_ms > 0

    # --- of changes of the metadata ----------------------------------------------------------------------

    def heard(self, call: Call, wait_ms: int) -> None:
        """The controller, who measures those, wants the client to wait."""
        if wait_ms:
            self._count(MUTATION_RATE)
        call.throttle_ms = max(call.throttle_ms, wait_ms)

    # --- of connections ----------------------------------------------------------------------------------

    def of_connection(self, address: str) -> int:
        """How many ms a new connection from there is kept waiting before it is ended; 0 to let it in."""
        held = None if self.active is None else self.quotas.of_address(address)
        if held is None:
            return 0
        now_ms = self._now_ms()
        wait_ms = self.quotas.record(held, 1, now_ms, self._windows)
        if wait_ms:
            self.quotas.record(held, -1, now_ms, self._windows)
            self._count(CONNECTION_RATE)
        return wait_ms

    # --- inside ------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Forget who has not been here for long."""
        self.quotas.expire(self._now_ms())

    def status(self) -> dict[str, Any]:
        """JSON-able: how often each kind of quota made somebody wait."""
        return self._node.status()

    @property
    def _windows(self) -> Windows:
        return self._node.windows

    def _held(self, key: str, peer: KafkaPeer) -> Held | None:
        return self.quotas.of_client(key, peer.principal.name, peer.client_id)

    def _record(self, key: str, peer: KafkaPeer, value: float) -> int:
        return self._node.record(key, peer.principal.name, peer.client_id, value, self._now_ms())

    def _count(self, key: str) -> None:
        self._node.count(key)


def _written(call: Call) -> int:
    """Bytes of the batches of a Produce."""
    data = call.body.topic_data if call.body is not None else ()
    return sum(len(part.records or b"") for topic in data for part in topic.partition_data)
