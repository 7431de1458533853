"""The real network: one ZeroMQ connection per node, opened on demand, replaced when it breaks.

A node that cannot be reached is left alone for a growing while: requests to it fail at once meanwhile, so
that whoever asks can turn to another node.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ClosedError, KafkaError, NetworkError, RequestTimedOutError
from ...protocol.transport.dealer_io import Connection
from .backoff import Backoff
from .network import Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from ...protocol.messages.envelope import Api
    from ...protocol.records.header import Buffer
    from ..config import ConnectionConfig
    from .network import Address

# Bound: addresses of nodes that are gone are forgotten when there are more than this.
MAX_IDLE_SLOTS = 256


class _Slot:
    """What is known of one address."""

    __slots__ = ("connection", "failures", "last_error", "opening", "retry_at_ms")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.opening: asyncio.Task[Connection] | None = None
        self.failures = self.retry_at_ms = 0
        self.last_error: KafkaError | None = None


class ZmqNetwork:
    """`Network` over real sockets. Belongs to one running loop."""

    def __init__(self, config: ConnectionConfig, now_ms: Callable[[], int], random: Random) -> None:
        self._config, self._now_ms = config, now_ms
        self._backoff = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, random)
        self._slots: dict[Address, _Slot] = {}
        self._is_closed = False

    async def request(
        self,
        address: Address,
        api: Api,
        body: Any,
        frames: Sequence[Buffer] = (),
        *,
        timeout_ms: int,
        expect_reply: bool = True,
    ) -> Reply:
        """See `Network.request`."""
        deadline_ms = self._now_ms() + timeout_ms
        connection = await self._connection(address, timeout_ms)
        left_s = max(deadline_ms - self._now_ms(), 1) / 1000
        try:
            if not expect_reply:
                async with asyncio.timeout(left_s):
                    await connection.writable()
                    await connection.send(api, body, frames, expect_reply=False)
                return Reply(None, ())
            response = await connection.request(api, body, frames, timeout_s=left_s)
        except (RequestTimedOutError, TimeoutError) as error:
            # Order: close before anyone retries, or the old request could be executed after its retry.
            self._drop(address, connection)
            raise RequestTimedOutError(
                f"{address} did not answer {api.name} within {timeout_ms} ms"
            ) from error
        except NetworkError as error:
            self._drop(address, connection)
            raise NetworkError(f"{address}: {error}") from error
        return Reply(response.body, response.frames)

    async def close(self) -> None:
        """See `Network.close`."""
        self._is_closed = True
        slots, self._slots = list(self._slots.values()), {}
        opening = [slot.opening for slot in slots if slot.opening is not None]
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for slot in slots:
            if slot.connection is not None:
                slot.connection.close()

    async def _connection(self, address: Address, timeout_ms: int) -> Connection:
        if self._is_closed:
            raise NetworkError("the client was closed")
        slot = self._slots.get(address)
        if slot is None:
            self._sweep()
            slot = self._slots[address] = _Slot()
        if slot.connection is not None and not slot.connection.is_closed:
            return slot.connection
        if slot.opening is None:
            if self._now_ms() < slot.retry_at_ms:
                raise NetworkError(f"{address} is not tried again yet: {slot.last_error}")
            slot.opening = asyncio.get_running_loop().create_task(self._open(address, slot))
            slot.opening.add_done_callback(_mark_retrieved)
        try:
            # shielded: several requests may wait for one connection, and one may give up earlier
            async with asyncio.timeout(timeout_ms / 1000):
                return await asyncio.shield(slot.opening)
        except TimeoutError:
            raise NetworkError(f"{address} was not connected within {timeout_ms} ms") from None
        except asyncio.CancelledError:
            if self._is_closed:
                raise ClosedError("the client was closed") from None
            raise

    async def _open(self, address: Address, slot: _Slot) -> Connection:
        config = self._config
        try:
            connection = await Connection.open(
                address.host,
                address.port,
                client_id=config.client_id,
                timeout_s=config.connection_setup_timeout_ms / 1000,
            )
        except KafkaError as error:
            slot.failures += 1
            slot.last_error = error
            slot.retry_at_ms = self._now_ms() + self._backoff.wait_ms(slot.failures)
            raise
        finally:
            slot.opening = None
        slot.failures, slot.last_error = 0, None
        slot.connection = connection
        return connection

    def _drop(self, address: Address, connection: Connection) -> None:
        slot = self._slots.get(address)
        if slot is not None and slot.connection is connection:
            slot.connection = None
        if not connection.is_closed:
            connection.close(linger_ms=0)

    def _sweep(self) -> None:
        if len(self._slots) < MAX_IDLE_SLOTS:
            return
        now_ms = self._now_ms()
        for address, slot in list(self._slots.items()):
            is_idle = slot.connection is None and slot.opening is None
            if is_idle and now_ms >= slot.retry_at_ms:
                del self._slots[address]


def _mark_retrieved(opening: asyncio.Task[Connection]) -> None:
    """A failure that came after all who waited gave up is not one that nobody looked at."""
    if not opening.cancelled():
        opening.exception()
