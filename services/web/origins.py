"""Which web pages may call the server: the checks of the Host and Origin headers, and CORS. Pure.

A page of another site can make a browser send requests with the browser's reach into a network. It cannot
set JSON content types or further methods without the permission of this server (CORS), and its Origin header
tells it from pages of this server.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from .problems import Problem

if TYPE_CHECKING:
    from .settings import WebConfig

SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
_ALLOWED_HEADERS = "authorization, content-type, accept, last-event-id"
_EXPOSED_HEADERS = "retry-after, content-type"
_PREFLIGHT_AGE_S = 600


def check_host(host: str | None, config: WebConfig) -> None:
    """Errors: Problem 421 if the Host header names another server, as after DNS rebinding."""
    if not config.is_loopback or "*" in config.allowed_hosts:
        return
    name = host_name(host or "")
    if name == "localhost" or name in config.allowed_hosts or _is_address(name):
        return
    raise Problem(421, f"this server is not {name!r}: allowed.hosts adds names to localhost and IP addresses")


def host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def check_origin(method: str, origin: str | None, site: str | None, own: str, config: WebConfig) -> None:
    """Errors: Problem 403 for a request of a page of another origin that could change something. `site` is
    the Sec-Fetch-Site header, `own` the origin of this server."""
    if method in SAFE_METHODS:
        return
    if origin is None:
        if site in (None, "same-origin", "none"):
            return
    elif origin == own or is_allowed(origin, config):
        return
    raise Problem(
        403, f"pages of {origin or 'other sites'} may not call this server: access.control.allow.origin"
    )


def is_allowed(origin: str, config: WebConfig) -> bool:
    """Whether pages of this origin may call the server."""
    return "*" in config.allow_origin or origin in config.allow_origin


def cors_headers(origin: str | None, config: WebConfig) -> dict[str, str]:
    """Response headers that let a page of this origin read the response; none if it may not."""
    if origin is None or not config.allow_origin or not is_allowed(origin, config):
        return {"vary": "origin"} if config.allow_origin else {}
    return {
        "access-control-allow-origin": "*" if "*" in config.allow_origin else origin,
        "access-control-expose-headers": _EXPOSED_HEADERS,
        "vary": "origin",
    }


def preflight_headers(origin: str | None, config: WebConfig) -> dict[str, str]:
    """Response headers of a preflight request (OPTIONS with Access-Control-Request-Method)."""
    headers = cors_headers(origin, config)
    if "access-control-allow-origin" not in headers:
        raise Problem(403, f"pages of {origin!r} may not call this server: access.control.allow.origin")
    return {
        **headers,
        "access-control-allow-methods": ", ".join(config.allow_methods),
        "access-control-allow-headers": _ALLOWED_HEADERS,
        "access-control-max-age": str(_PREFLIGHT_AGE_S),
    }


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
