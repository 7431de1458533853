"""Client quotas on the Kafka listener. Pure.

A response is sent at once and has the throttle time; the connection is muted for that time. A Fetch above its
quota returns no records. Source: Kafka KafkaApis.scala, ClientRequestQuotaManager.java; KIP-219.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

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

    from ...runtime.client_quotas import ApplicableQuota, Windows
    from ...storage_node.edge.gateway import GatewayHost

_PRODUCE = 0


class MeteredCall(Protocol):
    """A Call, as quotas need it; `peer` is a KafkaPeer."""

    @property
    def api(self) -> Any:
        """Its KafkaApi."""

    body: Any
    peer: Any
    busy_since_s: float | None
    throttle_ms: int


class Throttle:
    """All clients of one listener, under the quotas of the metadata."""

    def __init__(self, host: GatewayHost, now_ms: Callable[[], int], clock_s: Callable[[], float]) -> None:
        """`clock_s` measures the request time."""
        self._now_ms, self._clock_s = now_ms, clock_s
        self._node = host.quotas
        self.quotas = self._node.meters

    @property
    def active(self) -> Throttle | None:
        """Self if there is any quota, else None. Read once per request: without quotas nothing more is
        done."""
        return self if self._node.is_active else None

    # --- of every request --------------------------------------------------------------------------------

    def begin(self, call: MeteredCall) -> None:
        """The handler of the call starts."""
        call.busy_since_s = self._clock_s() if self.quotas.has(REQUEST_PERCENTAGE) else None

    def end(self, call: MeteredCall) -> None:
        """The handler has returned; later work is not counted."""
        self._record_time(call)
        call.busy_since_s = None

    def settle(self, call: MeteredCall) -> None:
        """Before the response: set `call.throttle_ms`."""
        wait_ms = self._record_time(call)
        if call.api.key == _PRODUCE:
            wait_ms = max(wait_ms, self._record(PRODUCER_RATE, call.peer, _written(call)))
        call.throttle_ms = max(call.throttle_ms, wait_ms)

    def _record_time(self, call: MeteredCall) -> int:
        since_s = call.busy_since_s
        if since_s is None:
            return 0
        call.busy_since_s = self._clock_s()
        return self._record(REQUEST_PERCENTAGE, call.peer, 100 * (call.busy_since_s - since_s))

    # --- of fetches --------------------------------------------------------------------------------------

    def fetch_bytes(self, call: MeteredCall, max_bytes: int) -> int:
        """The bytes that a fetch may return: more would exceed all windows."""
        held = self._held(CONSUMER_RATE, call.peer)
        return max_bytes if held is None else min(max_bytes, self._most(held))

    def _most(self, held: ApplicableQuota) -> int:
        return max(int(largest(held, self._windows)), 1)

    def throttles_fetch(self, call: MeteredCall, size: int) -> bool:
        """Whether `size` bytes of records are over the quota and not returned. A batch that is larger than
        all windows is returned when the windows are empty."""
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

    def note_controller(self, call: MeteredCall, wait_ms: int) -> None:
        """Take over the throttle time of the controller, which enforces quotas of mutations."""
        if wait_ms:
            self._count(MUTATION_RATE)
        call.throttle_ms = max(call.throttle_ms, wait_ms)

    # --- of connections ----------------------------------------------------------------------------------

    def of_connection(self, address: str) -> int:
        """How many ms a new connection from `address` is muted before it is closed; 0 to accept it."""
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
        """Drop clients that have not been seen for long."""
        self.quotas.expire(self._now_ms())

    def status(self) -> dict[str, Any]:
        """JSON-able: how often each kind of quota throttled a client."""
        return self._node.status()

    @property
    def _windows(self) -> Windows:
        return self._node.windows

    def _held(self, key: str, peer: Any) -> ApplicableQuota | None:
        return self.quotas.of_client(key, peer.identity.principal.name, peer.client_id)

    def _record(self, key: str, peer: Any, value: float) -> int:
        return self._node.record(key, peer.identity.principal.name, peer.client_id, value, self._now_ms())

    def _count(self, key: str) -> None:
        self._node.count(key)


def _written(call: MeteredCall) -> int:
    """The bytes of the batches of a Produce."""
    data = call.body.topic_data if call.body is not None else ()
    return sum(len(part.records or b"") for topic in data for part in topic.partition_data)
