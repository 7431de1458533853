"""Where a client first knocks: explicit addresses, HEADRACE_BOOTSTRAP, or a registered way to find a cluster.

Other parts (the Ray launcher) register a resolver; a client asks them only when nothing was given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.errors import ConfigError, NoClusterError
from .cluster.network import Address
from .foreign_names import refuse_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Resolver = Callable[[], str | None]  # "host:port,host:port", or None when it finds no cluster

DEFAULT_PORT = 9092
VARIABLE = "HEADRACE_BOOTSTRAP"

_resolvers: dict[str, Resolver] = {}


def register_resolver(name: str, resolver: Resolver) -> None:
    """Add a way to find the cluster, tried in the order of registration; the same name replaces.

    It may block (it runs on a worker thread), is asked again whenever no known node answers, and returns
    None when it does not apply. A NoClusterError of it is raised if no other one finds a cluster.
    """
    _resolvers[name] = resolver


def unregister_resolver(name: str) -> None:
    """Forget a resolver; nothing happens when there is none of this name."""
    _resolvers.pop(name, None)


def explicit_bootstrap(bootstrap: str | Iterable[str] | None, environment: Mapping[str, str]) -> str | None:
    """What was given by argument or environment, as one comma-separated text; None when nothing was.

    Errors: TypeError for what is neither text nor a sequence of texts.
    """
    refuse_mapping(bootstrap, "Client")
    if bootstrap is not None and not isinstance(bootstrap, str):
        try:
            bootstrap = ",".join(bootstrap)
        except TypeError:
            raise TypeError(f"bootstrap is 'host:port,…' or several 'host:port', not {bootstrap!r}") from None
    return bootstrap or environment.get(VARIABLE) or None


def resolve_bootstrap(explicit: str | None) -> tuple[Address, ...]:
    """The addresses to try, in order. May block in a resolver.

    Errors: NoClusterError when nothing was given and no resolver finds one; ConfigError for a bad address.
    """
    if explicit is not None:
        return parse_addresses(explicit)
    refusal: NoClusterError | None = None
    for resolver in list(_resolvers.values()):
        try:
            found = resolver()
        except NoClusterError as error:
            refusal = refusal or error
            continue
        if found:
            return parse_addresses(found)
    if refusal is not None:
        raise refusal
    tried = f" (asked: {', '.join(_resolvers)})" if _resolvers else ""
    raise NoClusterError(
        f"no cluster to connect to: pass bootstrap='host:port', set {VARIABLE}, or start one with"
        f" `headrace up` or headrace.local(){tried}"
    )


def parse_addresses(text: str) -> tuple[Address, ...]:
    """`host`, `host:port`, `[ipv6]:port`, separated by commas. Errors: ConfigError naming the bad part."""
    found = tuple(_address(part.strip()) for part in text.split(",") if part.strip())
    if not found:
        raise ConfigError(f"no address in bootstrap {text!r}")
    return found


def _address(part: str) -> Address:
    if part.startswith("["):
        host, bracket, rest = part[1:].partition("]")
        separator, port = rest[:1], rest[1:]
        if not bracket or (rest and separator != ":"):
            raise ConfigError(f"bad bootstrap address {part!r}: expected [ipv6]:port")
    elif part.count(":") > 1:
        raise ConfigError(f"bad bootstrap address {part!r}: put an IPv6 address in brackets, [::1]:9092")
    else:
        host, separator, port = part.partition(":")
    if not host or (separator and not port):
        raise ConfigError(f"bad bootstrap address {part!r}: expected host:port")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise ConfigError(f"bad port in bootstrap address {part!r}")
    return Address(host, int(port) if port else DEFAULT_PORT)
