"""Live tails: browsers with the same search share one consumer, and each row is rendered once."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError
from ..web.problems import Problem, text_of_error
from .browsing_io import tail
from .decoding import visible

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import jinja2

    from ..web.client_pool_io import ClientPool
    from ..web.credentials import Credentials
    from .search import Search

MOST_SEARCHES = 64  # Bound: consumers of tails
MOST_WAITING = 50  # Bound: events that wait for a browser; later ones are counted, not sent
LONGEST_S = 3600.0  # a tail ends after this time; the browser starts the next one
_Key = tuple[Any, ...]


class Tails:
    """All open tails."""

    def __init__(self, pool: ClientPool, template: jinja2.Template, most: int) -> None:
        self._pool, self._template, self._most = pool, template, most
        self._readers: dict[_Key, _Reader] = {}
        self.count = 0

    def check(self) -> None:
        """Errors: Problem 503 if too many tails are open."""
        if self.count >= self._most:
            raise Problem(503, f"{self.count} tails are open", headers={"retry-after": "5"})

    async def events(self, credentials: Credentials, search: Search) -> AsyncIterator[bytes]:
        """Server-sent events of rows, until the browser leaves."""
        key = (credentials, *search.tail_key)
        reader = self._readers.get(key)
        if reader is None:
            if len(self._readers) >= MOST_SEARCHES:
                yield event("trouble", f"tails with {len(self._readers)} different searches are open")
                return
            reader = self._readers[key] = _Reader(self._pool, self._template, credentials, search)
        waiting: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING + 2)
        self.count += 1
        reader.add(waiting)
        deadline = time.monotonic() + LONGEST_S
        try:
            yield b"retry: 3000\n\n"
            while time.monotonic() < deadline:
                part = await waiting.get()
                if part is None:
                    return
                yield part
        finally:
            self.count -= 1
            reader.remove(waiting)
            if not reader.browsers and self._readers.get(key) is reader:
                del self._readers[key]
                await reader.close()

    async def close(self) -> None:
        """End all tails."""
        readers, self._readers = list(self._readers.values()), {}
        for reader in readers:
            await reader.close()


class _Reader:
    """One consumer for all browsers with a search."""

    def __init__(
        self, pool: ClientPool, template: jinja2.Template, credentials: Credentials, search: Search
    ) -> None:
        self._pool, self._template = pool, template
        self._credentials, self._search = credentials, search
        self.browsers: dict[asyncio.Queue[bytes | None], int] = {}  # records that were not sent
        self._is_live = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    def add(self, waiting: asyncio.Queue[bytes | None]) -> None:
        """Send the next events to this queue, too."""
        if self._task.done():
            waiting.put_nowait(None)  # the browser connects again
        elif self._is_live:
            waiting.put_nowait(event("alive", ""))
        self.browsers[waiting] = 0

    def remove(self, waiting: asyncio.Queue[bytes | None]) -> None:
        """A browser has left."""
        self.browsers.pop(waiting, None)

    async def close(self) -> None:
        """End the consumer, and the streams that are left."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            async with self._pool.use(self._credentials) as clients:
                async for step in tail(clients, self._search):
                    self._is_live = True
                    if step.rows:
                        rows = event("rows", self._template.render(rows=step.rows))
                        self._send(rows, len(step.rows), step.left_out)
                    else:
                        self._send(event("alive", ""), 0, step.left_out)
        except (HeadraceError, Problem) as error:
            self._send(event("trouble", visible(text_of_error(error))), 0, 0)
        finally:
            for waiting in self.browsers:
                while waiting.full():
                    waiting.get_nowait()
                waiting.put_nowait(None)

    def _send(self, part: bytes, records: int, left_out: int) -> None:
        """To each browser; one that is slow gets the number of records that it has missed."""
        for waiting, missed in self.browsers.items():
            if waiting.qsize() >= MOST_WAITING:
                self.browsers[waiting] = missed + records + left_out
                continue
            waiting.put_nowait(part)
            if missed + left_out:
                waiting.put_nowait(event("left-out", str(missed + left_out)))
                self.browsers[waiting] = 0


def event(name: str, text: str) -> bytes:
    """A server-sent event; the text is JSON, so that no line of it is a field of the stream."""
    return f"event: {name}\ndata: {json.dumps(text)}\n\n".encode()
