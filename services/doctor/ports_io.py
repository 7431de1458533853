"""Listeners of this machine: whether their ports are free, and whether others answer."""

from __future__ import annotations

import errno
import socket
import time
from typing import TYPE_CHECKING

import psutil

from ...runtime.listener_address import is_wildcard
from .facts import AdvertisedFacts, PortFacts, ReachFacts

if TYPE_CHECKING:
    from collections.abc import Iterable

CONNECT_TIMEOUT_S = 3.0
_OURS = ("headrace", "ray::", "raylet", "gcs_server")


def port_facts(host: str, port: int) -> PortFacts:
    """Whether a server can listen there, and if not, which process does."""
    address = "" if is_wildcard(host) else host.strip("[]")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port))
            listener.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                owner = _owner(port)
                state = "headrace" if any(mark in owner for mark in _OURS) else "taken"
                return PortFacts(host=host, port=port, state=state, owner=owner)
            detail = error.strerror or str(error)
            return PortFacts(host=host, port=port, state="unusable", detail=detail)
    return PortFacts(host=host, port=port, state="free")


def reach_facts(addresses: Iterable[str]) -> tuple[ReachFacts, ...]:
    """One connection to each address `host:port`."""
    return tuple(map(_reached, addresses))


def advertised_facts(server: str, listener: str, address: str) -> AdvertisedFacts:
    """The addresses of an advertised host, as this machine resolves them."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        return AdvertisedFacts(server=server, listener=listener, address=address, error=str(error))
    resolved = tuple(sorted({str(entry[4][0]) for entry in found}))
    return AdvertisedFacts(server=server, listener=listener, address=address, resolved=resolved)


def _reached(address: str) -> ReachFacts:
    host, _, port = address.rpartition(":")
    started = time.perf_counter()
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S):
            ms = (time.perf_counter() - started) * 1000
            return ReachFacts(address=address, ms=round(ms, 3))
    except (OSError, ValueError) as error:
        return ReachFacts(address=address, error=getattr(error, "strerror", None) or str(error))


def _owner(port: int) -> str:
    """The command of the process that listens on a port; empty if this user may not see it."""
    try:
        found = [each for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
        pids = {each.pid for each in found if each.laddr.port == port and each.pid}
        return " ".join(psutil.Process(min(pids)).cmdline())[:200] if pids else ""
    except psutil.Error:
        return ""
