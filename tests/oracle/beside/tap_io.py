"""A proxy in front of a node, which records the API keys and versions of the requests."""

import asyncio
import contextlib
import struct
import threading
from collections import defaultdict

CHUNK = 1 << 18


class Requests:
    """Parses the API key and version of each request in a stream of bytes."""

    def __init__(self) -> None:
        self._head = b""
        self._skip = 0

    def found(self, data: bytes) -> list[tuple[int, int]]:
        """(key, version) of each request whose header is complete with `data`, in any chunks."""
        heads, position = [], 0
        while position < len(data):
            if self._skip:
                step = min(self._skip, len(data) - position)
                self._skip -= step
                position += step
                continue
            taken = data[position : position + 8 - len(self._head)]
            self._head += taken
            position += len(taken)
            if len(self._head) == 8:
                size, key, version = struct.unpack(">ihh", self._head)
                heads.append((key, version))
                self._skip, self._head = max(size - 4, 0), b""
        return heads


class Tap:
    """A proxy on a loopback port. `target`: the node's port; `client`: the sender of the present requests."""

    def __init__(self) -> None:
        self.target = 0
        self.client = ""
        self.seen: dict[tuple[int, int], set[str]] = defaultdict(set)
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, name="tap", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close all connections and end the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._server.close()
        self._loop.run_until_complete(self._cancel_all())
        self._loop.close()

    async def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            behind = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        directions = [
            asyncio.ensure_future(self._copy(reader, behind[1], Requests())),
            asyncio.ensure_future(self._copy(behind[0], writer, None)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in directions:
                each.cancel()
            for end in (writer, behind[1]):
                end.close()

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: Requests | None
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                for head in requests.found(data) if requests else ():
                    self.seen[head].add(self.client)
                writer.write(data)
                await writer.drain()
