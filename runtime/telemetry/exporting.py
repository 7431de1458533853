"""The contract between a server and its exporters, which the host passes in. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..telemetry_config import TelemetryConfig
    from .samples import Samples


APPLICATION = "application"  # the role of a process of clients, see Measured


class Measured(Protocol):
    """A server or an application, as its exporters see it."""

    @property
    def role(self) -> str:
        """`node`, `controller` or APPLICATION."""

    @property
    def server_id(self) -> int:
        """Of this role; of an application the process id."""

    @property
    def cluster_id(self) -> str:
        """Empty until it is known."""

    @property
    def data_dirs(self) -> Sequence[str]:
        """Directories whose disks are measured."""

    def metric_pieces(self, samples: Samples) -> Iterator[None]:
        """Add the values of the server's metrics; called on its loop, which does other work between two
        pieces."""

    def stored_port(self, name: str) -> int:
        """The port of the listener `name` in the last run, 0 without one."""

    def store_port(self, name: str, port: int) -> None:
        """Store the port for the next run."""


class Telemetry(Protocol):
    """The exporters of one server."""

    def start(self) -> None:
        """Begin to export; called on the server's loop once it serves. Errors: OSError (the port)."""

    async def stop(self) -> None:
        """Stop the exporters."""

    def close(self) -> None:
        """End them at once."""

    def status(self) -> dict[str, Any]:
        """JSON-able."""


TelemetryFactory = Callable[[Measured, "TelemetryConfig"], Telemetry]
"""Errors: ConfigError."""
