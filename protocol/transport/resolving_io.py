"""Numeric addresses of host names."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket as sockets

from ..errors import NetworkError


async def resolve(loop: asyncio.AbstractEventLoop, host: str, port: int, timeout_s: float) -> list[str]:
    """Numeric addresses of a host: ZeroMQ would resolve names on its only IO thread. Errors: NetworkError."""
    with contextlib.suppress(ValueError):
        # numeric addresses need no worker thread, of which there are none during interpreter shutdown
        return [str(ipaddress.ip_address(host))]
    try:
        async with asyncio.timeout(timeout_s):
            facts = await loop.getaddrinfo(host, port, type=sockets.SOCK_STREAM)
    except TimeoutError:
        raise NetworkError(f"{host} was not resolved within {timeout_s:g} s") from None
    except (OSError, UnicodeError, RuntimeError) as error:  # RuntimeError: at interpreter shutdown
        raise NetworkError(f"{host} cannot be resolved: {error}") from None
    return list(dict.fromkeys(str(fact[4][0]) for fact in facts))
