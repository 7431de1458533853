"""The one writer of a controller: takes requests in order, and makes their decisions durable in groups.

Order, for every group: decide and append each; flush; publish to readers; answer. So no answer and no reader
ever knows of a decision that a crash could take back. Requests that arrive during a flush form the next
group, so one flush serves many. An answer without records waits as well, because it may rest on a
decision of the same group. A failure ends the task, and with it the process: nothing is answered then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from ..protocol.errors import KafkaError, ThrottlingQuotaExceededError
from ..protocol.messages.control import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    DescribeConfigsRequest,
)
from ..runtime.clock_io import monotonic_ms, wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from ..protocol.metadata.records import MetadataRecord
    from ..protocol.transport.router_io import Request, Router
    from .controller import Controller
    from .metadata_feed import MetadataFeed
    from .quorum.metadata_log import MetadataLog

# Bound: decisions of one group, which wait for one flush together.
MAX_GROUP = 200
# Bound: how long deciding may keep the loop from its sockets. One decision may take a tenth of a second
# (10,000 partitions), so a count alone would let a client silence every heartbeat for longer than a session.
MAX_GROUP_MS = 10


_URGENT = (BrokerHeartbeatRequest, BrokerRegistrationRequest)


class _Waiting(NamedTuple):
    request: Request
    arrival_ms: int  # a heartbeat counts from when it came, not from when its turn came


class DecisionWriter:
    """Owns the metadata log while the controller runs. `disk` is one thread: its work is in order."""

    def __init__(
        self,
        core: Controller,
        log: MetadataLog,
        feed: MetadataFeed,
        router: Router,
        disk: Executor,
        *,
        max_waiting: int,
        max_unread_bytes: int = 1 << 62,
        snapshot_interval_bytes: int,
        on_publish: Callable[[], None],
    ) -> None:
        self._core, self._log, self._feed, self._router, self._disk = core, log, feed, router, disk
        self._max_waiting = max_waiting
        self._max_unread_bytes = max_unread_bytes
        self._snapshot_interval_bytes = snapshot_interval_bytes
        self._on_publish = on_publish
        self._waiting: deque[_Waiting] = deque()
        # Heartbeats and registrations pass the others: a queue full of slow requests must fence nobody.
        self._urgent: deque[_Waiting] = deque()
        self._has_work = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._decisions: list[Sequence[MetadataRecord]] = []  # appended, not yet published

    def __len__(self) -> int:
        return len(self._waiting) + len(self._urgent)

    def submit(self, request: Request) -> None:
        """Queue a request; it will be answered. Errors: ThrottlingQuotaExceededError when too many wait."""
        queue = self._urgent if isinstance(request.body, _URGENT) else self._waiting
        if len(queue) >= self._max_waiting:
            raise ThrottlingQuotaExceededError(f"{self._max_waiting} requests are waiting for the controller")
        queue.append(_Waiting(request, monotonic_ms()))
        self.wake()

    def wake(self) -> None:
        """Look for work: a request came, or time has passed and sessions may have run out."""
        self._is_idle.clear()
        self._has_work.set()

    async def drained(self) -> None:
        """Wait until every queued request is answered."""
        await self._is_idle.wait()

    async def run(self) -> None:
        """Write until cancelled. Errors: KafkaStorageError; nothing is answered after one."""
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            answers = self._decide_group()
            await self._make_durable()
            self._publish()
            for request, answer in answers:
                self._answer(request, answer)
            if self._log.bytes_since_snapshot >= self._snapshot_interval_bytes:
                await self._on_disk(self._log.write_snapshot, self._core.image, wall_ms())
            if len(self):
                self._has_work.set()
                await asyncio.sleep(0)  # a group without records has awaited nothing: let the sockets be read
            elif not self._has_work.is_set():
                self._is_idle.set()

    def _decide_group(self) -> list[tuple[Request, Any]]:
        """Decide and append what waits, then what time brings. The answers, in order."""
        answers: list[tuple[Request, Any]] = []
        end_ms = monotonic_ms() + MAX_GROUP_MS
        while len(self) and len(answers) < MAX_GROUP and (not answers or monotonic_ms() < end_ms):
            request, arrival_ms = (self._urgent or self._waiting).popleft()
            try:
                self._check_room(request)
                decision = self._core.decide(request.body, arrival_ms)
            except KafkaError as error:
                answers.append((request, error))
            else:
                self._append(decision.records)
                answers.append((request, decision.reply))
        if not len(self):
            # Order: sessions run out only once everything that was heard has been counted, and once the core
            # knows of the time in which this loop stood still and could hear nobody.
            self._core.tick(monotonic_ms())
            while records := self._core.decide_expiry(monotonic_ms()):
                self._append(records)
        return answers

    def _check_room(self, request: Request) -> None:
        """Errors: ThrottlingQuotaExceededError for a small question with a large answer while too much lies
        unread: it was let in before those that wait ahead of it were answered."""
        is_reading = isinstance(request.body, DescribeConfigsRequest)
        if is_reading and self._router.pending_response_bytes > self._max_unread_bytes:
            raise ThrottlingQuotaExceededError("too many bytes of answers are waiting to be read")

    def _append(self, records: Sequence[MetadataRecord]) -> None:
        if records:
            self._core.apply(self._log.append(records, wall_ms()), records)
            self._decisions.append(records)

    async def _make_durable(self) -> None:
        if self._decisions:
            await self._on_disk(self._log.flush)

    def _publish(self) -> None:
        if self._decisions:
            self._feed.publish(self._core.image, self._decisions)
            self._decisions = []
            self._on_publish()

    def _answer(self, request: Request, answer: Any) -> None:
        if isinstance(answer, KafkaError):
            self._router.reply_error(request, answer)
        else:
            self._router.reply(request, answer)

    async def _on_disk(self, work: Callable[..., None], *args: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(self._disk, work, *args)
