"""The port of the last start, so that a restarted controller is found where it was."""

from __future__ import annotations

from ..protocol.errors import KafkaStorageError
from ..storage_node.log.files import Files, read_file, write_file_atomically

FILE_NAME = "listener.port"


def remembered_port(files: Files, directory: str) -> int:
    """The port, or 0 if none is known: a damaged memory is not worth failing for."""
    path = f"{directory}/{FILE_NAME}"
    try:
        text = read_file(files, path).decode("ascii", "replace").strip() if files.exists(path) else ""
    except KafkaStorageError:
        return 0
    port = int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 0
    return port if port <= 65_535 else 0


def remember_port(files: Files, directory: str, port: int) -> None:
    """Store the port. Errors: KafkaStorageError."""
    if remembered_port(files, directory) != port:
        write_file_atomically(files, directory, FILE_NAME, str(port).encode())
