"""Runs one server in this process until SIGTERM: for systemd, containers, or a shell."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

from ...controller.config import ControllerConfig
from ...controller.controller_io import ControllerServer
from ...coordinators.assembly import new_coordinators
from ...protocol.errors import ApiTimeoutError, HeadraceError
from ...protocol.messages import registry
from ...protocol.messages.quorum import DescribeQuorumRequest
from ...protocol.security.server_keys import CONTROLLER, ServerName
from ...protocol.transport.dealer_io import Connection
from ...runtime.loop_io import new_event_loop
from ...runtime.server_host_io import RESTART_CODE, ServerHost, end_process, settle_process
from ...runtime.server_security_io import server_security
from ...runtime.thread_stacks_io import thread_stacks
from ...storage_node.links.leader_search_io import fixed_locator
from ...storage_node.shell.node_io import NodeServer
from ..kafka_listener.assembly import new_kafka_listener
from ..native_sasl import NativeMechanisms
from ..telemetry.assembly import new_telemetry
from .control_io import ControlSocket
from .notify_io import notify, watchdog_interval_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...runtime.server_host_io import Server
    from .config_file import ServerFile

log = logging.getLogger("headrace.host")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# While a server recovers its logs, the service manager gives it more time, again and again.
EXTEND, EXTEND_EVERY_S = "EXTEND_TIMEOUT_USEC=60000000", 10.0
FAILED = "failed"
METADATA_FOLDER = "__cluster_metadata-0"
POLL_S = 0.2
STOP_TIMEOUT_S = 60.0
ALIVE_TIMEOUT_S = 5.0
IDLE_S = 3600.0


class CannotStartError(HeadraceError):
    """A server did not start."""


def serve(file: ServerFile, report: Callable[[str], None]) -> None:
    """Run the server until SIGTERM or SIGINT, and stop it cleanly. A server that fails later ends the process
    with code 1.

    Errors: those of its start.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # Order: before the first thread
    os.makedirs(file.directory, exist_ok=True)
    is_ready = threading.Event()
    host = ServerHost(
        file.name,
        lambda: _new_server(file),
        end=lambda code: end_process(code) if is_ready.is_set() else None,
        linger_s=0.0,
        on_ready=settle_process,
    )
    if not _wait_ready(host):
        return
    is_ready.set()
    if host.status()["state"] == FAILED:  # between the two lines above
        end_process(RESTART_CODE)
    control = ControlSocket(file.directory, {"status": host.status, "stacks": thread_stacks})
    assert host.endpoint is not None
    address = f"{host.endpoint[0]}:{host.endpoint[1]}"
    notify("READY=1", f"STATUS=serving on {address}")
    report(f"{file.name} is ready on {address}")
    _until_stopped(host)
    notify("STOPPING=1", "STATUS=stopping")
    control.close()
    host.stop(STOP_TIMEOUT_S)


def format_standalone(file: ServerFile, *, if_new: bool = False) -> bool:
    """Make a controller with an empty data dir the first voter of a new quorum, and stop it again. With
    `if_new`, do nothing if its disk, or another controller that answers, is part of a quorum: then the
    controller joins that. Returns whether it did.

    Errors: CannotStartError if its disk is part of a quorum already; those of the start of a controller.
    """
    assert isinstance(file.config, ControllerConfig)
    alone = ControllerConfig.of({**file.config.to_mapping(), "controller.quorum.bootstrap.servers": ()})
    has_quorum = os.path.exists(os.path.join(alone.metadata_log_dir, METADATA_FOLDER, "quorum-state"))
    if has_quorum and not if_new:
        raise CannotStartError(f"{alone.metadata_log_dir} is part of a quorum already: nothing was changed")
    if has_quorum:
        return False
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        if if_new and runner.run(_is_part_of_quorum(file)):
            return False
        os.makedirs(alone.metadata_log_dir, exist_ok=True)
        runner.run(_begin(alone))
    return True


async def _begin(config: ControllerConfig) -> None:
    server = ControllerServer(config)
    await server.start()
    running = asyncio.create_task(server.run())
    await server.stop()
    await running


async def _is_part_of_quorum(file: ServerFile) -> bool:
    """Whether another controller knows voters."""
    assert isinstance(file.config, ControllerConfig)
    security = server_security(file.config, ServerName(CONTROLLER, file.config.controller_id))
    for host, port in file.controllers:
        try:
            connection = await Connection.open(
                host,
                port,
                client_id=file.name,
                timeout_s=ALIVE_TIMEOUT_S,
                security=security.connections if security is not None else None,
                server=CONTROLLER,
            )
        except (HeadraceError, TimeoutError, OSError):
            continue  # not started yet
        try:
            request = DescribeQuorumRequest()
            response = await connection.request(registry.DESCRIBE_QUORUM, request, timeout_s=ALIVE_TIMEOUT_S)
        except HeadraceError:
            continue
        finally:
            connection.close()
        # only the leader lists voters; one that lost its leader still has an epoch
        if response.body.voters or response.body.leader_id >= 0 or response.body.leader_epoch > 0:
            return True
    return False


def _new_server(file: ServerFile) -> Server:
    if isinstance(file.config, ControllerConfig):
        return ControllerServer(file.config, telemetry=new_telemetry)
    locators = tuple(fixed_locator(host, port) for host, port in file.controllers)
    return NodeServer(
        file.config,
        locators,
        coordinators=new_coordinators,
        gateway=new_kafka_listener,
        sasl=NativeMechanisms,
        telemetry=new_telemetry,
    )


def _wait_ready(host: ServerHost) -> bool:
    """False if it was stopped before. Errors: those of its start."""
    extends_at = 0.0
    while True:
        try:
            host.wait_ready(POLL_S)
        except ApiTimeoutError:
            if host.status()["state"] == FAILED:
                raise
            if time.monotonic() >= extends_at:
                extends_at = time.monotonic() + EXTEND_EVERY_S
                notify(EXTEND, "STATUS=recovering logs and connecting to the controllers")
            if signal.sigtimedwait(STOP_SIGNALS, 0) is not None:
                notify("STOPPING=1")
                host.stop(STOP_TIMEOUT_S)
                return False
        else:
            return True


def _until_stopped(host: ServerHost) -> None:
    """Wait for a signal; meanwhile a server whose event loop runs sends signs of life."""
    interval_s = watchdog_interval_s()
    while signal.sigtimedwait(STOP_SIGNALS, interval_s or IDLE_S) is None:
        if interval_s is not None:
            try:
                host.call(_nothing(), ALIVE_TIMEOUT_S)
            except (HeadraceError, TimeoutError) as error:
                log.warning("no sign of life to the service manager: %r", error)
            else:
                notify("WATCHDOG=1")


async def _nothing() -> None:
    """Runs when the event loop does."""
