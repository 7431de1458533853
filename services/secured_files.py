"""The names of the files of a secured cluster, in the folder `security` of its data dir. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = "security"
CA_FILE, CA_KEY_FILE, SERVER_FILE = "ca.pem", "ca.key", "server.pem"
CLIENT_FILE = "admin.properties"  # of native clients of the user admin
JAVA_FILE, LIBRDKAFKA_FILE = "admin.java.properties", "admin.librdkafka.properties"


def properties(config: Mapping[str, Any]) -> str:
    """Lines of `key=value`."""
    return "".join(f"{name}={value}\n" for name, value in config.items())


def parse_properties(text: str) -> dict[str, str]:
    """The config of lines `key=value`; empty lines and comments with # and ! are skipped. Errors: ValueError
    for another line."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, separator, value = stripped.partition("=")
        if not separator or not name.strip():
            raise ValueError(f"line {number} is not key=value")
        found[name.strip()] = value.strip()
    return found
