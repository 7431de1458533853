"""A Unix socket, mode 0600, in the data dir of a server process: its status and stacks for its operator."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

from ...protocol.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

log = logging.getLogger("headrace.host")

FILE = "control.sock"
ANSWER_TIMEOUT_S = 10.0
MAX_REQUEST = 64


class ControlSocket:
    """Answers one line with one JSON document per connection, on a thread of its own."""

    def __init__(self, directory: str, answers: Mapping[str, Callable[[], Any]]) -> None:
        """`answers` are the functions by request. Errors: OSError."""
        self._answers = answers
        self._path = os.path.join(directory, FILE)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)  # of a process that was killed; the data dir is locked by this one
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _short_path(directory) as path:
            mask = os.umask(0o177)
            try:
                self._listener.bind(path)
            finally:
                os.umask(mask)
        self._listener.listen(8)
        threading.Thread(target=self._serve, name="control socket", daemon=True).start()

    def close(self) -> None:
        """Stop to listen, and remove the file."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed
            with connection, contextlib.suppress(OSError):
                connection.settimeout(ANSWER_TIMEOUT_S)
                connection.sendall(
                    self._answer(connection.recv(MAX_REQUEST).decode("ascii", "replace").strip())
                )

    def _answer(self, request: str) -> bytes:
        try:
            answer = self._answers[request]()
        except KeyError:
            answer = {"error": f"unknown request {request!r}"}
        except Exception as error:  # noqa: BLE001 - reported to the operator, the server goes on
            answer = {"error": f"{type(error).__name__}: {error}"}
        return json.dumps(answer, default=str).encode()


def ask(directory: str, request: str) -> Any:
    """The answer of the server with this data dir. Errors: NetworkError if none runs; PermissionError."""
    try:
        with _short_path(directory) as path, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(ANSWER_TIMEOUT_S)
            stream.connect(path)
            stream.sendall(request.encode() + b"\n")
            data = b"".join(iter(lambda: stream.recv(65_536), b""))
    except (FileNotFoundError, ConnectionRefusedError, TimeoutError) as error:
        raise NetworkError(f"no server process answers in {directory}") from error
    return json.loads(data)


@contextlib.contextmanager
def _short_path(directory: str) -> Iterator[str]:
    """The path of the socket within the 107 bytes that a Unix socket may have, whatever the directory is."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)  # FileNotFoundError: there is no such folder
    try:
        yield f"/proc/self/fd/{number}/{FILE}"
    finally:
        os.close(number)
