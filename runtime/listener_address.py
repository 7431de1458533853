"""The advertised address of a server, and the port of its first start, which is stored with its data so that
clients find it again after a restart.

Pure: a small text file in the first (or the metadata) log dir, written through the file layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.errors import ConfigError, KafkaStorageError
from .files.file_layer import read_file, write_file_atomically

if TYPE_CHECKING:
    from .files.file_layer import Files

FILE_NAME = "listener.port"
MAX_PORT = 65_535
# Addresses to listen on that no client can connect to.
_WILDCARDS = frozenset(("", "*", "0.0.0.0", "::", "[::]"))  # noqa: S104 -- to refuse them


def is_wildcard(host: str) -> bool:
    """Whether no client can connect to this listen address."""
    return host in _WILDCARDS


def reachable_host(listener_host: str, advertised_host: str) -> str:
    """The host to advertise. Errors: ConfigError for a wildcard address."""
    host = advertised_host or listener_host
    if host in _WILDCARDS:
        raise ConfigError(
            f"clients cannot connect to listener.host {listener_host!r}: set advertised.host"
            if not advertised_host
            else f"advertised.host must not be {advertised_host!r}"
        )
    return host


def port_file_name(name: str) -> str:
    """The file with the port of a listener for Kafka's clients."""
    return f"listener.{name}.port"


def stored_port(files: Files, directory: str, name: str = FILE_NAME) -> int:
    """The port of the previous run; 0 if there is none or the file is damaged."""
    try:
        if not files.exists(f"{directory}/{name}"):
            return 0
        text = read_file(files, f"{directory}/{name}")[:16].strip()
    except KafkaStorageError:
        return 0  # the port is a preference; the log manager handles disk errors
    port = int(text) if text.isdigit() and len(text) <= 5 else 0
    return port if port <= MAX_PORT else 0


def store_port(files: Files, directory: str, port: int, name: str = FILE_NAME) -> None:
    """Store `port` for the next start, atomically. Errors: KafkaStorageError."""
    if stored_port(files, directory, name) != port:
        write_file_atomically(files, directory, name, b"%d\n" % port)
