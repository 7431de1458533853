"""The calls of async functions that a task has under way, and the order in which their results are forwarded.

A record that an operator has called its function for is not done before the result is forwarded. The task
therefore commits only when no call is left: see docs/adr/0031.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import StreamsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...clients.records import Headers
    from ..processing import CallPolicy, Forward
    from ..records import RecordContext
    from .current_record import CurrentRecord


class AsyncCall:
    """One call of `function`, for one record. What runs it sets `result` or `error`."""

    __slots__ = (
        "arguments", "context", "error", "function", "headers", "is_done", "key", "lane", "queue", "result",
        "timestamp", "value",
    )  # fmt: skip

    def __init__(
        self,
        queue: CallQueue,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        key: Any,
        value: Any,
        timestamp: int,
        headers: Headers,
        context: RecordContext | None,
        lane: Any,
    ) -> None:
        self.queue = queue
        self.function = function
        self.arguments = arguments
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers = headers
        self.context = context
        self.lane = lane
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None

    @property
    def policy(self) -> CallPolicy:
        return self.queue.policy


class CallExecutor(Protocol):
    """Runs the calls of one task on an event loop."""

    def submit(self, call: AsyncCall) -> None:
        """Begin a call."""

    def ended(self) -> Iterable[AsyncCall]:
        """The calls that have ended since the last time, in this order."""

    def cancel(self) -> None:
        """Cancel all calls: their results are not wanted any more."""


class CallQueue:
    """The calls of one operator, at most `concurrency` of them under way; the others wait.

    A *lane* has calls whose results are forwarded in the order of their records: all calls of an ordered
    operator, else the calls of one key.
    """

    def __init__(self, calls: TaskCalls, node: str, policy: CallPolicy, forward: Forward) -> None:
        self.node = node
        self.policy = policy
        self.forward = forward
        self._calls = calls
        self._waiting: deque[AsyncCall] = deque()
        self._under_way = 0
        self._lanes: dict[Any, deque[AsyncCall]] = {}
        self._numbers = count()
        self.pending = 0
        """Calls whose results are not forwarded yet."""

    @property
    def is_full(self) -> bool:
        """Results that wait for their turn count as well: else one slow call would let them pile up."""
        concurrency = self.policy.concurrency
        return self._under_way >= concurrency or self.pending >= 2 * concurrency

    def add(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        key: Any,
        value: Any,
        timestamp: int,
        headers: Headers,
    ) -> None:
        """Call the function for a record as soon as there is room."""
        lane = self._lane_of(key)
        context = self._calls.current.context
        call = AsyncCall(self, function, arguments, key, value, timestamp, headers, context, lane)
        self._lanes.setdefault(lane, deque()).append(call)
        self._waiting.append(call)
        self.pending += 1
        self._start()
        self._calls.update()

    def _lane_of(self, key: Any) -> Any:
        if self.policy.ordered:
            return None
        if key is None:
            return ("number", next(self._numbers))  # records without key have no order
        try:
            hash(key)
        except TypeError:
            return "unhashable"
        return ("key", key)

    def _start(self) -> None:
        while self._waiting and self._under_way < self.policy.concurrency:
            self._under_way += 1
            self._calls.executor.submit(self._waiting.popleft())

    def end(self, call: AsyncCall, ready: deque[AsyncCall]) -> None:
        """A call has ended: begin the next one; add to `ready` the calls whose turn has come."""
        call.is_done = True
        self._under_way -= 1
        self._start()
        lane = self._lanes[call.lane]
        while lane and lane[0].is_done:
            ready.append(lane.popleft())
        if not lane:
            del self._lanes[call.lane]


class TaskCalls:
    """The async operators of one task.

    `holds`: the task takes no more input records, because an operator is full or a commit waits for calls.
    """

    def __init__(self, current: CurrentRecord) -> None:
        self.current = current
        self.open_executor: Callable[[], CallExecutor] | None = None
        self._executor: CallExecutor | None = None
        self._queues: list[CallQueue] = []
        self._ready: deque[AsyncCall] = deque()
        self.is_draining = False
        self.holds = False

    @property
    def executor(self) -> CallExecutor:
        """What runs the calls; made for the first operator."""
        if self._executor is None:
            if self.open_executor is None:
                raise StreamsError("this task runs no async functions")
            self._executor = self.open_executor()
        return self._executor

    def open(self, node: str, policy: CallPolicy, forward: Forward) -> CallQueue:
        """The calls of one operator."""
        queue = CallQueue(self, node, policy, forward)
        self._queues.append(queue)
        return queue

    @property
    def has_operators(self) -> bool:
        """Whether the task has async operators."""
        return bool(self._queues)

    @property
    def pending(self) -> int:
        """Calls whose results are not forwarded yet."""
        return sum(queue.pending for queue in self._queues)

    @property
    def longest_ms(self) -> int:
        """A call that has begun ends within this time."""
        return max((queue.policy.timeout_ms for queue in self._queues), default=0)

    def drain(self) -> None:
        """Take no more input records until `resume`, so that all calls end. A task without async operators
        goes on."""
        self.is_draining = bool(self._queues)
        self.update()

    def resume(self) -> None:
        """Take input records again."""
        self.is_draining = False
        self.update()

    def update(self) -> None:
        """Compute `holds` after a change."""
        self.holds = self.is_draining or any(queue.is_full for queue in self._queues)

    def take(self) -> Iterator[AsyncCall]:
        """The calls whose results can be forwarded now."""
        if self._executor is None:
            return
        for call in self._executor.ended():
            call.queue.end(call, self._ready)
        self.update()
        while self._ready:
            call = self._ready.popleft()
            call.queue.pending -= 1
            self.update()
            yield call

    def cancel(self) -> None:
        """Drop all calls. They stay pending: their records are processed again, so nothing is committed."""
        if self._executor is not None and self.pending:
            self._executor.cancel()
