"""Security contexts of the machine's Kerberos library, by the package gssapi.

The library reads krb5.conf (KRB5_CONFIG), sends requests to the KDC, and writes the replay cache.
"""

from __future__ import annotations

import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import gssapi
from gssapi.exceptions import GSSError

from ..errors import ConfigError
from .gssapi_sasl import ContextError, GssapiServer
from .kerberos_names import PrincipalToLocal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .krb5_module import ServiceLogin
    from .sasl import SaslServer

# Bound: a step takes some 0.2 ms, most of it with the replay cache locked.
THREADS = 2
_KERBEROS = gssapi.MechType.kerberos
# Codes of krb5_err.et, counted from its base: Kafka's KerberosError, and those of an unreachable KDC.
_BASE = 2**32 - 1765328384
_CLIENT_NOT_YET_VALID, _TICKET_NOT_YET_VALID, _REPLAY = 21, 33, 34
_REALM_CANNOT_RESOLVE, _KDC_UNREACHABLE = 154, 156
_RETRIABLE = frozenset(
    (_CLIENT_NOT_YET_VALID, _TICKET_NOT_YET_VALID, _REPLAY, _REALM_CANNOT_RESOLVE, _KDC_UNREACHABLE)
)


class KerberosContext:
    """Implements AcceptedContext and SecurityContext."""

    def __init__(self, context: gssapi.SecurityContext) -> None:
        # otherwise a step that fails with a token for the peer would return the token and hide the error
        context.__DEFER_STEP_ERRORS__ = False
        self._context = context

    @property
    def is_established(self) -> bool:
        """Part of SecurityContext."""
        return bool(self._context.complete)

    def step(self, token: bytes | None, /) -> bytes:
        """Part of SecurityContext."""
        try:
            return bytes(self._context.step(token) or b"")
        except GSSError as error:
            raise _context_error(error) from error

    def wrap(self, message: bytes, /) -> bytes:
        """Part of SecurityContext."""
        try:
            return bytes(self._context.wrap(message, encrypt=False).message)
        except GSSError as error:
            raise _context_error(error) from error

    def unwrap(self, token: bytes, /) -> bytes:
        """Part of SecurityContext."""
        try:
            return bytes(self._context.unwrap(token).message)
        except GSSError as error:
            raise _context_error(error) from error

    def client(self) -> str:
        """Part of AcceptedContext."""
        return str(self._context.initiator_name)

    def lifetime_s(self) -> int:
        """Part of AcceptedContext."""
        try:
            return int(self._context.lifetime)
        except GSSError as error:
            raise _context_error(error) from error


class KerberosAcceptor:
    """The Kerberos service of a listener: creates a SaslServer for each exchange. New keys in its keytab are
    used at once."""

    def __init__(self, login: ServiceLogin, rules: Sequence[str]) -> None:
        """Errors: ConfigError for a keytab without the principal."""
        try:
            name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
            store = {"keytab": login.keytab}
            self._credentials = gssapi.Credentials(name=name, usage="accept", mechs=[_KERBEROS], store=store)
        except GSSError as error:
            raise ConfigError(
                f"the keytab {login.keytab} has no keys of {login.principal}: {_text(error)}"
            ) from error
        self._name_of = PrincipalToLocal(rules, default_realm()).name_of
        self._threads = ThreadPoolExecutor(THREADS, "headrace-kerberos")

    def new_server(self) -> SaslServer:
        """A SaslFactory."""
        context = gssapi.SecurityContext(creds=self._credentials, usage="accept")
        return GssapiServer(KerberosContext(context), self._name_of, self._threads.submit)

    def close(self) -> None:
        """Stop the threads; waiting steps are cancelled."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def default_realm() -> str:
    """The default realm of krb5.conf; empty if there is none."""
    try:
        return str(gssapi.Name("x", gssapi.NameType.user).canonicalize(_KERBEROS)).partition("@")[2]
    except GSSError:
        return ""


def new_initiator(service: str, host: str, principal: str = "", keytab: str = "") -> KerberosContext:
    """The context of a client, for the service on a host.

    Tickets come from the credentials cache that kinit writes; with `keytab`, the library requests and renews
    them with its keys. `principal`: which of several to use; empty for the first. Errors: ContextError.
    """
    try:
        target = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(
            name=target,
            creds=_client_credentials(principal, keytab),
            usage="initiate",
            mech=_KERBEROS,
            flags=gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity,
        )
    except GSSError as error:
        where = f"by the keytab {keytab}" if keytab else "in the credentials cache (run kinit)"
        raise _context_error(error, f"no tickets {where}: ") from error
    return KerberosContext(context)


def _client_credentials(principal: str, keytab: str) -> gssapi.Credentials | None:
    """None: the library's default credentials, which it looks up when the context is established."""
    if not principal and not keytab:
        return None
    name = gssapi.Name(principal, gssapi.NameType.kerberos_principal) if principal else None
    if not keytab:
        return gssapi.Credentials(name=name, usage="initiate")
    # One cache in memory for all connections with this keytab and principal.
    cache = f"MEMORY:headrace-{zlib.crc32(f'{keytab} {principal}'.encode()):08x}"
    return gssapi.Credentials(name=name, usage="initiate", store={"client_keytab": keytab, "ccache": cache})


def _context_error(error: GSSError, before: str = "") -> ContextError:
    return ContextError(before + _text(error), is_retriable=error.min_code - _BASE in _RETRIABLE)


def _text(error: GSSError) -> str:
    """The text of the Kerberos library; the text of GSS-API only if there is no other."""
    minor = error.get_all_statuses(error.min_code, False) if error.min_code else []
    return "; ".join(
        [text for text in minor if text != "Success"] or error.get_all_statuses(error.maj_code, True)
    )
