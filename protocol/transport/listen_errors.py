"""Errors of a server that cannot listen, with the server, the address and a remedy. Pure."""

from __future__ import annotations

import errno

_ADVICE = {
    errno.EADDRINUSE: "another process uses the port: `ss -ltnp` shows it; configure another port",
    errno.EADDRNOTAVAIL: "this machine does not have the address: correct the host",
    errno.EACCES: "this user may not listen on it: choose a port above 1023",
}


def address_error(host: str, port: int, error: OSError) -> OSError:
    """An OSError for `host:port` with the errno of `error`, the reason and a remedy."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    advice = _ADVICE.get(error.errno or 0)
    reason = f"cannot listen on {address}: {error.strerror or error}"
    return OSError(error.errno, f"{reason} ({advice})" if advice else reason)


def listen_error(server: str, error: OSError) -> OSError:
    """An `address_error` that also names the server, such as "node 2"."""
    return OSError(error.errno, f"{server}: {error.strerror or error}")
