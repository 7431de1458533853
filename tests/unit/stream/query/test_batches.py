"""Point queries of several threads that share requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from headrace.protocol.errors import ClosedError
from headrace.runtime.clock_io import monotonic_ms
from headrace.stream import QueryTimeoutError
from headrace.stream.query.batches_io import MOST_KEYS, Batches, Caller, Wait

if TYPE_CHECKING:
    from collections.abc import Callable


class Asked:
    """Requests, each answered when the test says so."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, list[Wait], asyncio.Future[None]]] = []
        self.batches = Batches(asyncio.get_running_loop().call_soon_threadsafe, self._ask)

    async def _ask(self, place: Any, waits: list[Wait]) -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.requests.append((place, waits, gate))
        await gate
        for wait in waits:
            wait.caller.set(wait.number, wait.key)

    def get(self, place: str, *keys: bytes, deadline_ms: int | None = None) -> asyncio.Task[list[Any]]:
        """In a thread of its own."""
        caller = Caller(len(keys), monotonic_ms() + 60_000 if deadline_ms is None else deadline_ms)
        waits = [Wait(caller, number, 0, key) for number, key in enumerate(keys)]
        return asyncio.create_task(asyncio.to_thread(self.batches.get, {place: waits}, caller))

    def keys(self) -> list[tuple[str, int]]:
        return [(place, len(waits)) for place, waits, _ in self.requests]

    async def wait(self, place: str, count: int) -> None:
        """Until so many keys wait for a request."""
        await until(lambda: len(self.batches._waiting.get(place, ())) == count)


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110  # set by threads
        await asyncio.sleep(0.001)


def run(scenario: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await scenario(Asked())

    asyncio.run(main())


def test_waiting_queries_are_sent_with_the_next_request() -> None:
    """The first key goes at once; those of another place do not wait for it."""

    async def scenario(asked: Asked) -> None:
        first = asked.get("a", b"0")
        await until(lambda: len(asked.requests) == 1)
        others = [asked.get("a", b"1", b"2"), asked.get("a", *[b"3"] * MOST_KEYS)]
        await asked.wait("a", MOST_KEYS + 2)
        elsewhere = asked.get("b", b"7")
        await until(lambda: len(asked.requests) == 2)
        assert asked.keys() == [("a", 1), ("b", 1)]
        for number in range(4):
            await until(lambda number=number: len(asked.requests) > number)
            asked.requests[number][2].set_result(None)
        assert await first == [b"0"]
        assert await elsewhere == [b"7"]
        assert sorted(map(tuple, await asyncio.gather(*others))) == [(b"1", b"2"), (b"3",) * MOST_KEYS]
        assert asked.keys()[2:] == [("a", MOST_KEYS), ("a", 2)]
        again = asked.get("a", b"1")
        await until(lambda: len(asked.requests) == 5)
        asked.requests[4][2].set_result(None)
        assert await again == [b"1"]

    run(scenario)


def test_a_failure_reaches_all_of_its_request_and_no_other() -> None:
    """The keys behind it are asked."""

    async def scenario(asked: Asked) -> None:
        first = asked.get("a", b"0")
        await until(lambda: len(asked.requests) == 1)
        second = asked.get("a", b"1")
        await asked.wait("a", 1)
        asked.requests[0][2].set_exception(ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            await first
        await until(lambda: len(asked.requests) == 2)
        asked.requests[1][2].set_result(None)
        assert await second == [b"1"]

    run(scenario)


def test_a_deadline_of_one_caller() -> None:
    """Its keys are not asked for any more; those of others are."""

    async def scenario(asked: Asked) -> None:
        patient = asked.get("a", b"0")
        await until(lambda: len(asked.requests) == 1)
        later = asked.get("a", b"2")
        await asked.wait("a", 1)
        with pytest.raises(QueryTimeoutError, match="earlier queries"):
            await asked.get("a", b"1", deadline_ms=monotonic_ms() + 10)
        asked.requests[0][2].set_result(None)
        assert await patient == [b"0"]
        await until(lambda: len(asked.requests) == 2)
        assert [wait.key for wait in asked.requests[1][1]] == [b"2"]
        asked.requests[1][2].set_result(None)
        assert await later == [b"2"]

    run(scenario)


def test_callers_of_a_closed_handle() -> None:
    """Those that wait, and later ones."""

    async def scenario(asked: Asked) -> None:
        first = asked.get("a", b"0")
        await until(lambda: len(asked.requests) == 1)
        waiting = asked.get("a", b"1")
        await asked.wait("a", 1)
        asked.batches.close()
        for each in (waiting, asked.get("a", b"2")):
            with pytest.raises(ClosedError):
                await each
        for task in asked.batches._tasks:
            task.cancel()
        with pytest.raises(ClosedError):
            await first

    run(scenario)


def test_callers_whose_answers_are_still_to_be_asked_for() -> None:
    """Their keys wait for no request: what an instance did not answer goes on in a task of its own."""

    async def scenario(asked: Asked) -> None:
        async def goes_on(_place: Any, _waits: list[Wait]) -> None:
            asked.requests.append(_place)

        asked.batches = Batches(asyncio.get_running_loop().call_soon_threadsafe, goes_on)
        left = asked.get("a", b"0")
        await until(lambda: bool(asked.requests) and not asked.batches._waiting)
        asked.batches.close()
        with pytest.raises(ClosedError):
            await left

    run(scenario)


def test_an_error_behind_the_last_value_is_void() -> None:
    caller = Caller(1, 0)
    caller.set(0, b"value")
    caller.fail(ValueError("late"))
    assert caller.wait(0)
    assert (caller.values, caller.error) == ([b"value"], None)
