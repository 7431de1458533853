"""Errors of a server that cannot listen: they name the server and the address, and say what to do. Pure."""

from __future__ import annotations

import errno

_ADVICE = {
    errno.EADDRINUSE: "another process has the port: `ss -ltnp` shows it; end it, or configure another port",
    errno.EADDRNOTAVAIL: "the address is not one of this machine: correct the host",
    errno.EACCES: "this user may not listen there: choose a port above 1023",
}


def address_error(host: str, port: int, error: OSError) -> OSError:
    """Why `host:port` cannot be listened on, of the same errno. `error` is what the system said."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    advice = _ADVICE.get(error.errno or 0)
    reason = f"cannot listen on {address}: {error.strerror or error}"
    return OSError(error.errno, f"{reason} ({advice})" if advice else reason)


def listen_error(server: str, error: OSError) -> OSError:
    """An `address_error` that names the server as well, such as "node 2"."""
    return OSError(error.errno, f"{server}: {error.strerror or error}")
