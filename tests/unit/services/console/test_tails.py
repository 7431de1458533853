"""Live tails of browsers that read slowly."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from headrace.services.console import tails_io
from headrace.services.console.search import Search
from headrace.services.console.tails_io import MOST_WAITING, Tails
from headrace.services.web.credentials import ANONYMOUS

STEPS = 200


class Pool:
    """Clients that are not used."""

    @contextlib.asynccontextmanager
    async def use(self, _credentials: object) -> AsyncIterator[object]:
        yield object()


async def rows_of(events: Any, count: int) -> list[tuple[str, str]]:
    """The next events: name and text."""
    found = []
    for _ in range(count):
        name, data = (await anext(events)).decode().strip().split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_slow_browser_costs_a_bounded_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others get each event; the slow one gets the first ones, and later the number that it has missed."""

    async def run() -> None:
        go_on = asyncio.Event()

        async def steps(_clients: object, _search: object) -> AsyncIterator[Any]:
            for number in range(STEPS + 1):
                if number == STEPS:
                    await go_on.wait()
                yield SimpleNamespace(rows=[number], left_out=0)
                await asyncio.sleep(0)

        monkeypatch.setattr(tails_io, "tail", steps)
        pool: Any = Pool()
        template: Any = SimpleNamespace(render=lambda rows: str(rows[0]))
        tails = Tails(pool, template, 10)
        slow, eager = (tails.events(ANONYMOUS, Search("t")) for _ in range(2))
        for each in (slow, eager):
            assert (await anext(each)).startswith(b"retry")
        assert await rows_of(eager, STEPS) == [("rows", str(number)) for number in range(STEPS)]
        kept = MOST_WAITING
        assert await rows_of(slow, kept) == [("rows", str(number)) for number in range(kept)]
        go_on.set()
        assert await rows_of(slow, 2) == [("rows", str(STEPS)), ("left-out", str(STEPS - kept))]
        for each in (slow, eager):
            await each.aclose()
        assert tails.count == 0
        await tails.close()

    asyncio.run(run())
