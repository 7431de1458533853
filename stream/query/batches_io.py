"""Batches point queries per partition: queries that wait for a request in flight are sent as one request.

A request costs the instance ten times as much as a further key in it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ...runtime.clock_io import monotonic_ms
from .errors import QueryTimeoutError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    _Waits = tuple[Any, int, asyncio.Future[Any]]

MOST_KEYS = 200
"""Of one request."""


class _Batch:
    """Waiting keys, each with its future."""

    __slots__ = ("task", "waiting")

    def __init__(self) -> None:
        self.waiting: list[_Waits] = []
        self.task: asyncio.Task[None] | None = None


class Batches:
    """`ask` takes a place, keys and a deadline, and returns the values in the order of the keys. For one
    event loop."""

    def __init__(self, ask: Callable[[Any, tuple[Any, ...], int], Awaitable[list[Any]]]) -> None:
        self._ask = ask
        self._batches: dict[Hashable, _Batch] = {}

    async def get(self, place: Hashable, key: Any, deadline_ms: int) -> Any:
        """The value of a key at a place. Errors: those of `ask`; QueryTimeoutError."""
        batch = self._batches.get(place)
        if batch is None:
            batch = self._batches[place] = _Batch()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        waits = key, deadline_ms, future
        batch.waiting.append(waits)
        if batch.task is None:
            batch.task = asyncio.create_task(self._drain(place, batch))
        await asyncio.wait([future], timeout=max(deadline_ms - monotonic_ms(), 1) / 1000)
        if waits in batch.waiting:
            batch.waiting.remove(waits)
            raise QueryTimeoutError("no answer in time: earlier queries of the same partition wait")
        return await future  # its request fails at the deadline, with the reason

    async def _drain(self, place: Hashable, batch: _Batch) -> None:
        while batch.waiting:
            taken, batch.waiting = batch.waiting[:MOST_KEYS], batch.waiting[MOST_KEYS:]
            try:
                values = await self._ask(
                    place, tuple([key for key, _, _ in taken]), min(deadline for _, deadline, _ in taken)
                )
            except QueryTimeoutError as error:
                now_ms = monotonic_ms()
                batch.waiting += [waits for waits in taken if waits[1] > now_ms]
                _fail([waits for waits in taken if waits[1] <= now_ms], error)
            except Exception as error:  # noqa: BLE001 - each caller raises it
                _fail(taken, error)
            else:
                for (_, _, future), value in zip(taken, values, strict=True):
                    if not future.done():
                        future.set_result(value)
        del self._batches[place]


def _fail(waiting: list[_Waits], error: Exception) -> None:
    for _, _, future in waiting:
        if not future.done():
            future.set_exception(error)
