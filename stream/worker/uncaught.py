"""What an error means that ends a stream thread. Pure."""

from __future__ import annotations

from collections.abc import Callable

REPLACE_THREAD = "replace_thread"
SHUTDOWN_CLIENT = "shutdown_client"
SHUTDOWN_APPLICATION = "shutdown_application"
UncaughtHandler = Callable[[BaseException], str]
"""The error that ended a thread, to REPLACE_THREAD, SHUTDOWN_CLIENT, or SHUTDOWN_APPLICATION, which ends all
instances of the application."""


def shut_down(_error: BaseException) -> str:
    """The default handler: the instance ends."""
    return SHUTDOWN_CLIENT
