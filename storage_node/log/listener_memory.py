"""Where a server is reached: the address that it tells others, and the port of its first start, which is
kept with its data so that clients find it again.

Pure: a small text file in the first (or the metadata) log dir, written through the file layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError, KafkaStorageError
from ...runtime.files.file_layer import read_file, write_file_atomically

if TYPE_CHECKING:
    from ...runtime.files.file_layer import Files

FILE_NAME = "listener.port"
MAX_PORT = 65_535
# Addresses to listen on that nobody can connect to from elsewhere.
_WILDCARDS = frozenset(("", "*", "0.0.0.0", "::", "[::]"))  # noqa: S104 -- to refuse them


def is_wildcard(host: str) -> bool:
    """Whether it is an address to listen on that nobody can connect to."""
    return host in _WILDCARDS


def reachable_host(listener_host: str, advertised_host: str) -> str:
    """The host to tell others. Errors: ConfigError when that would be no address at all."""
    host = advertised_host or listener_host
    if host in _WILDCARDS:
        raise ConfigError(
            f"listener.host {listener_host!r} is no address that others can connect to: set advertised.host"
            if not advertised_host
            else f"advertised.host must not be {advertised_host!r}"
        )
    return host


def file_of_listener(name: str) -> str:
    """The file with the port of a listener for Kafka's clients."""
    return f"listener.{name}.port"


def remembered_port(files: Files, directory: str, name: str = FILE_NAME) -> int:
    """The port of the last run, or 0 when there is none or the file makes no sense."""
    try:
        if not files.exists(f"{directory}/{name}"):
            return 0
        text = read_file(files, f"{directory}/{name}")[:16].strip()
    except KafkaStorageError:
        return 0  # only a wish; the log manager judges the disk
    port = int(text) if text.isdigit() and len(text) <= 5 else 0
    return port if port <= MAX_PORT else 0


def remember_port(files: Files, directory: str, port: int, name: str = FILE_NAME) -> None:
    """Keep `port` for the next start. Errors: KafkaStorageError; the old value or the new one stays."""
    if remembered_port(files, directory, name) != port:
        write_file_atomically(files, directory, name, b"%d\n" % port)
