"""Point queries that share requests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from headrace.runtime.clock_io import monotonic_ms
from headrace.stream import QueryTimeoutError
from headrace.stream.query.batches_io import MOST_KEYS, Batches


class Asked:
    """Requests, each answered when the test says so."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, tuple[Any, ...], asyncio.Future[None]]] = []

    async def ask(self, place: Any, keys: tuple[Any, ...], _deadline_ms: int) -> list[Any]:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.requests.append((place, keys, gate))
        await gate
        return [f"{place}-{key}" for key in keys]


async def turn() -> None:
    """All that can run has run."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_waiting_queries_are_sent_with_the_next_request() -> None:
    """The first key goes at once; those of another place do not wait for it."""

    async def run() -> None:
        asked = Asked()
        batches = Batches(asked.ask)
        deadline = monotonic_ms() + 60_000
        first = asyncio.create_task(batches.get("a", 0, deadline))
        await turn()
        others = [asyncio.create_task(batches.get("a", key, deadline)) for key in range(1, MOST_KEYS + 3)]
        elsewhere = asyncio.create_task(batches.get("b", 7, deadline))
        await turn()
        assert [(place, len(keys)) for place, keys, _ in asked.requests] == [("a", 1), ("b", 1)]
        for number in range(4):
            asked.requests[number][2].set_result(None)
            await turn()
        assert [(place, len(keys)) for place, keys, _ in asked.requests][2:] == [("a", MOST_KEYS), ("a", 2)]
        assert await first == "a-0"
        assert await elsewhere == "b-7"
        assert await asyncio.gather(*others) == [f"a-{key}" for key in range(1, MOST_KEYS + 3)]
        again = asyncio.create_task(batches.get("a", 1, deadline))
        await turn()
        asked.requests[4][2].set_result(None)
        assert await again == "a-1"

    asyncio.run(run())


def test_a_failure_reaches_all_of_its_request_and_no_other() -> None:
    """The keys behind it are asked."""

    async def run() -> None:
        asked = Asked()
        batches = Batches(asked.ask)
        deadline = monotonic_ms() + 60_000
        first = asyncio.create_task(batches.get("a", 0, deadline))
        await turn()
        second = asyncio.create_task(batches.get("a", 1, deadline))
        await turn()
        asked.requests[0][2].set_exception(ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            await first
        await turn()
        asked.requests[1][2].set_result(None)
        assert await second == "a-1"

    asyncio.run(run())


def test_a_deadline_of_one_caller() -> None:
    """It ends its own wait, not those of others, in the same request or before it."""

    async def run() -> None:
        asked = Asked()
        batches = Batches(asked.ask)
        patient = asyncio.create_task(batches.get("a", 0, monotonic_ms() + 60_000))
        await turn()
        with pytest.raises(QueryTimeoutError, match="earlier queries"):
            await batches.get("a", 1, monotonic_ms() + 10)
        late = asyncio.create_task(batches.get("a", 2, monotonic_ms() + 60_000))
        short = asyncio.create_task(batches.get("a", 3, monotonic_ms() + 50))
        await turn()
        asked.requests[0][2].set_result(None)
        assert await patient == "a-0"
        await turn()
        assert asked.requests[1][1] == (2, 3)
        await asyncio.wait([short], timeout=0.06)
        asked.requests[1][2].set_exception(QueryTimeoutError("its reason"))
        with pytest.raises(QueryTimeoutError, match="its reason"):
            await short
        await turn()
        assert asked.requests[2][1] == (2,)
        asked.requests[2][2].set_result(None)
        assert await late == "a-2"

    asyncio.run(run())
