"""The real network: one ZeroMQ connection per node, opened on demand, replaced when it breaks.

After a failed connection attempt requests to that node fail at once for a growing time, so that the caller
can use another node.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ClosedError, KafkaError, NetworkError, RequestTimedOutError
from ...protocol.transport.dealer_io import Connection
from .backoff import Backoff
from .network import HOPELESS, Reply
from .security_io import connection_security
from .tasks_io import owned_task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from ...protocol.messages.envelope import Api, ApiVersionRange
    from ...protocol.records.header import Buffer
    from ...protocol.transport.dealer_io import Response
    from ...protocol.transport.security import ConnectionSecurity
    from ..config import ConnectionConfig
    from .network import Address, GiveUp, OnDone

# Bound: with more slots than this, those without a connection are removed.
MAX_IDLE_SLOTS = 256


class _Slot:
    """The connection to one address, and the backoff of attempts to open it."""

    __slots__ = ("connection", "failures", "last_error", "opening", "retry_at_ms")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.opening: asyncio.Task[Connection] | None = None
        self.failures = self.retry_at_ms = 0
        self.last_error: KafkaError | None = None


class _Call:
    """A request in flight with a callback: a `Recipient` without a future or a task."""

    __slots__ = ("_failed", "_on_done", "_timer")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeout_ms: int,
        failed: Callable[[RequestTimedOutError | TimeoutError | NetworkError], KafkaError],
        on_done: OnDone,
    ) -> None:
        self._failed = failed
        self._on_done: OnDone | None = on_done
        self._timer = loop.call_later(max(timeout_ms, 1) / 1000, self._time_is_over)

    def done(self) -> bool:
        return self._on_done is None

    def set_result(self, response: Response) -> None:
        if (on_done := self.give_up()) is not None:
            on_done(Reply(response.body, response.frames), None)

    def set_exception(self, error: KafkaError) -> None:
        if (on_done := self.give_up()) is not None:
            if isinstance(error, (RequestTimedOutError, NetworkError)):
                error = self._failed(error)
            on_done(None, error)

    def give_up(self) -> OnDone | None:
        """Cancel the request; gives its callback, unless that was called."""
        self._timer.cancel()
        on_done, self._on_done = self._on_done, None
        return on_done

    def _time_is_over(self) -> None:
        self.set_exception(RequestTimedOutError("no response in time"))


class ZmqNetwork:
    """`Network` over real sockets. Belongs to one running loop."""

    def __init__(
        self,
        config: ConnectionConfig,
        now_ms: Callable[[], int],
        random: Random,
        security: ConnectionSecurity | None = None,
    ) -> None:
        """`security` in place of that of `config`."""
        self._config, self._now_ms = config, now_ms
        self._backoff = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, random)
        self._security, self._keys = (security, None) if security else connection_security(config)
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
        except (RequestTimedOutError, TimeoutError, NetworkError) as error:
            raise self._failed(address, connection, api, timeout_ms, error) from error
        return Reply(response.body, response.frames)

    def submit(
        self,
        address: Address,
        api: Api,
        body: Any,
        frames: Sequence[Buffer] = (),
        *,
        timeout_ms: int,
        on_done: OnDone,
    ) -> GiveUp | None:
        """See `Network.submit`."""
        slot = self._slots.get(address)
        connection = None if slot is None else slot.connection
        if connection is None or connection.is_closed or not connection.is_writable:
            return None

        def failed(error: RequestTimedOutError | TimeoutError | NetworkError) -> KafkaError:
            return self._failed(address, connection, api, timeout_ms, error)

        loop = asyncio.get_running_loop()
        call = _Call(loop, timeout_ms, failed, on_done)
        try:
            refusal = connection.submit(call, api, body, frames)
        except BaseException:
            call.give_up()
            raise
        if refusal is not None:
            loop.call_soon(call.set_exception, refusal)
        return call.give_up

    async def served_apis(self, address: Address, timeout_ms: int) -> tuple[ApiVersionRange, ...]:
        """The apis and versions that a server named in the handshake. Errors: as `request`."""
        return (await self._connection(address, timeout_ms)).hello.apis

    def drop(self, address: Address) -> None:
        """See `Network.drop`."""
        slot = self._slots.get(address)
        if slot is not None and slot.connection is not None:
            self._drop(address, slot.connection)

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
                if isinstance(slot.last_error, HOPELESS):
                    raise slot.last_error
                raise NetworkError(f"{address} is in backoff: {slot.last_error}")
            slot.opening = owned_task(self._open(address, slot))
            slot.opening.add_done_callback(_mark_retrieved)
        try:
            # Shielded: several requests may wait for one connection, and one may time out earlier.
            async with asyncio.timeout(timeout_ms / 1000):
                return await asyncio.shield(slot.opening)
        except TimeoutError:
            raise NetworkError(f"{address} was not connected within {timeout_ms} ms") from None
        except asyncio.CancelledError:
            if self._is_closed:
                raise ClosedError("the client was closed") from None
            raise

    async def _open(self, address: Address, slot: _Slot) -> Connection:
        try:
            connection = await self._connect(address)
        except KafkaError as error:
            await self._learn_keys()
            slot.failures += 1
            slot.last_error = error
            slot.retry_at_ms = self._now_ms() + self._backoff.wait_ms(slot.failures)
            raise
        finally:
            slot.opening = None
        slot.failures, slot.last_error = 0, None
        slot.connection = connection
        if self._keys is not None and connection.server_key is not None:
            self._keys.found(str(address), connection.server_key)
        return connection

    async def _connect(self, address: Address) -> Connection:
        return await Connection.open(
            address.host,
            address.port,
            client_id=self._config.client_id,
            timeout_s=self._config.connection_setup_timeout_ms / 1000,
            security=self._security,
            server=str(address),
        )

    async def _learn_keys(self) -> None:
        """A server cannot be connected: perhaps its key was replaced while this client was connected. Another
        one, which is connected now, tells the keys to a new connection."""
        if self._keys is None:
            return
        self._keys.pin_again()
        for address, slot in list(self._slots.items()):
            if slot.connection is not None and not slot.connection.is_closed:
                with contextlib.suppress(KafkaError):
                    (await self._connect(address)).close()
                    return

    def _failed(
        self,
        address: Address,
        connection: Connection,
        api: Api,
        timeout_ms: int,
        error: RequestTimedOutError | TimeoutError | NetworkError,
    ) -> KafkaError:
        """Close the connection after a timeout or a broken connection; gives the error of the request.

        Order: before a retry, or the request could be executed after its retry.
        """
        self._drop(address, connection)
        if isinstance(error, NetworkError):
            return NetworkError(f"{address}: {error}")
        return RequestTimedOutError(f"{address} did not respond to {api.name} within {timeout_ms} ms")

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
    """Read the error of an attempt that ended after its requests, so that asyncio logs nothing."""
    if not opening.cancelled():
        opening.exception()
