"""The rules that generate a synchronous client from an asyncio one."""

import ast
import re
from pathlib import Path

from headrace.services import sync_clients

SOURCE = '''"""The asyncio thing."""

import asyncio

from ..cluster.async_cluster_io import AsyncClusterIo


class AsyncThing:
    """Belongs to one event loop."""

    async def __aenter__(self) -> None:
        await asyncio.sleep(0)  # async only: other tasks run
        async with self.lock:
            await self._io.call(self.engine.async_wait())

    def later(self) -> asyncio.Future[None]: ...
'''
SYNC = '''"""The synchronous thing."""

import concurrent.futures

from ..cluster.cluster_io import ClusterIo


class Thing:
    """Thread-safe."""

    def __enter__(self) -> None:
        with self.lock:
            self._io.call(self.engine.wait())

    def later(self) -> concurrent.futures.Future[None]: ...
'''


def test_words_are_replaced_and_marked_lines_left_out(tmp_path: Path) -> None:
    """Keywords, class names, special methods, futures; the first line names the source."""
    (tmp_path / "aio").mkdir()
    (tmp_path / "aio" / "thing_io.py").write_text(SOURCE)
    header, text = sync_clients.sync_source("thing_io", tmp_path).split("\n", 1)
    assert "clients/aio/thing_io.py" in header
    assert text == SYNC


def test_every_rule_is_used() -> None:
    """A rule without use belongs to a sentence that was reworded."""

    text = "".join((sync_clients.CLIENTS / "aio" / f"{name}.py").read_text() for name in sync_clients.MODULES)
    assert [pattern for pattern, _ in sync_clients.REPLACEMENTS if not re.search(pattern, text)] == []


def test_generated_clients_do_not_mention_asyncio() -> None:
    """No coroutine and no asyncio name, docstrings included; tests/tidy compares them with their sources."""
    for name in sync_clients.MODULES:
        text = (sync_clients.CLIENTS / "sync" / f"{name}.py").read_text().split("\n", 1)[1]
        kinds = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
        assert not [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)], name
        assert "Async" not in text, name
        assert "event loop" not in text, name
