"""Bootstrap addresses of a client: explicit ones, HEADRACE_BOOTSTRAP, or a registered resolver.

Other parts (the Ray launcher) register resolvers; a client calls them only without explicit addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.errors import ConfigError, NoClusterError
from .cluster.network import Address
from .foreign_names import refuse_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Resolver = Callable[[], str | None]  # "host:port,host:port", or None if it finds no cluster

DEFAULT_PORT = 9092
VARIABLE = "HEADRACE_BOOTSTRAP"

_resolvers: dict[str, Resolver] = {}


def register_resolver(name: str, resolver: Resolver) -> None:
    """Add a resolver, called in the order of registration; one with the same name is replaced.

    It may block (it runs on a worker thread), is called again whenever no known node answers, and returns
    None if it finds no cluster. Its NoClusterError is raised if no other resolver finds a cluster.
    """
    _resolvers[name] = resolver


def unregister_resolver(name: str) -> None:
    """Remove a resolver; ignored if the name is unknown."""
    _resolvers.pop(name, None)


def explicit_bootstrap(bootstrap: str | Iterable[str] | None, environment: Mapping[str, str]) -> str | None:
    """The addresses of the argument or the environment, as one comma-separated text; None without any.

    Errors: TypeError for other types than text or a sequence of texts.
    """
    refuse_mapping(bootstrap)
    if bootstrap is not None and not isinstance(bootstrap, str):
        try:
            bootstrap = ",".join(bootstrap)
        except TypeError:
            raise TypeError(
                f"bootstrap must be 'host:port,…' or a list of 'host:port', not {bootstrap!r}"
            ) from None
    return bootstrap or environment.get(VARIABLE) or None


def resolve_bootstrap(explicit: str | None) -> tuple[Address, ...]:
    """The addresses to try, in order. May block in a resolver.

    Errors: NoClusterError if none were given and no resolver finds a cluster; ConfigError for an invalid
    address.
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
    tried = f" (searched: {', '.join(_resolvers)})" if _resolvers else ""
    raise NoClusterError(
        f"no cluster to connect to: pass bootstrap='host:port', set {VARIABLE}, or start one with"
        f" `headrace up` or headrace.local(){tried}"
    )


def parse_addresses(text: str) -> tuple[Address, ...]:
    """`host`, `host:port`, `[ipv6]:port`, separated by commas. Errors: ConfigError with the invalid part."""
    found = tuple(_address(part.strip()) for part in text.split(",") if part.strip())
    if not found:
        raise ConfigError(f"no address in bootstrap {text!r}")
    return found


def _address(part: str) -> Address:
    if "://" in part:
        raise ConfigError(
            f"bad bootstrap address {part!r}: expected host:port, without {part.split('//')[0]}//"
        )
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
