"""Connections of listeners with TLS or SASL, and the state that all connections of such a listener share.

A PLAINTEXT listener has plain KafkaConnections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError, InvalidRequestError
from ...protocol.security.distinguished_names import subject_name
from ...protocol.security.identity import Identity
from ...protocol.security.principal_mapping import NoRuleError, PrincipalMapper
from ...protocol.security.principals import user
from ...storage_node.edge.accounts import Accounts
from .connection_io import KafkaConnection
from .framing import MIN_FRAME_BYTES
from .sasl_apis import token_call
from .sasl_offer import SaslSetup
from .sasl_session import SaslSession
from .tls_io import TlsOutput, TlsSocket
from .tls_stores_io import TlsStores

if TYPE_CHECKING:
    import logging

    from ...storage_node.configs.listener_security import ListenerSecurity
    from .listener_io import KafkaListener
    from .output_io import Output
    from .sockets_io import PolledSocket

_SSL = "SSL"  # the mechanism of client certificates


class SecuredListener:
    """Key stores, mapping rules and mechanisms of one listener. Implements Secured."""

    def __init__(self, security: ListenerSecurity, listener: KafkaListener) -> None:
        """Errors: ConfigError."""
        host = listener.host
        self.security, self._listener = security, listener
        self.stores = TlsStores(security) if security.protocol.has_tls else None
        self.mapper = PrincipalMapper(security.config.ssl_principal_mapping_rules)
        self.sasl: SaslSetup | None = None
        if security.protocol.has_sasl:
            accounts = Accounts(lambda: host.image, host.config.now.delegation_token_secret_key)
            self.sasl = SaslSetup(security, accounts)

    def connect(self, name: str, descriptor: int, remote: Any) -> KafkaConnection:
        """A new connection of this listener."""
        return SecuredConnection(self._listener, name, descriptor, remote, self)

    def check(self, security: ListenerSecurity) -> None:
        """Whether the listener can have these key stores. Errors: ConfigError."""
        if self.stores is None:
            raise ConfigError(f"listener {security.listener} has no TLS")
        TlsStores(security)

    def follow(self, security: ListenerSecurity, log: logging.Logger) -> None:
        """Use other key stores from now on, if they can be loaded."""
        if self.stores is None or security == self.security:
            return
        fault = ""
        try:
            self.stores, self.security = TlsStores(security), security
        except ConfigError as error:
            fault = str(error)
        if fault:
            log.error("the key stores of the changed configuration are not used, but those before: %s", fault)
        else:
            log.info("listener %s: the key stores of the changed configuration are in use", security.listener)

    def reload(self, log: logging.Logger) -> None:
        """Reload changed key stores."""
        fault = None if self.stores is None else self.stores.reload()
        if fault == "":
            log.info("listener %s: the changed key stores are in use", self.security.listener)
        elif fault:
            log.error("the changed key stores cannot be used, the previous ones remain in use: %s", fault)

    @property
    def certificate_expiry_s(self) -> float | None:
        """When the certificate in use expires; None without one."""
        return None if self.stores is None else self.stores.expiry_s

    def close(self) -> None:
        """Stop reading the keys of an OIDC provider."""
        if self.sasl is not None:
            self.sasl.close()


class SecuredConnection(KafkaConnection):
    """A KafkaConnection that must authenticate: by a certificate, by SASL, or both. Implements TlsOwner and
    SaslOwner."""

    __slots__ = ("_has_turn_now", "_is_queued", "_secured", "_takes_turns")

    def __init__(
        self, listener: KafkaListener, name: str, descriptor: int, remote: Any, secured: SecuredListener
    ) -> None:
        """As KafkaConnection."""
        self._secured = secured
        self._is_queued = self._has_turn_now = False
        # Until SASL has ended. TlsSocket has turns for the handshake before it.
        self._takes_turns = secured.sasl is not None and secured.stores is None
        super().__init__(listener, name, descriptor, remote)
        if isinstance(self._socket, TlsSocket) and isinstance(self._output, TlsOutput):
            self._socket.send_sealed = self._output.send_sealed
        if secured.sasl is not None:
            self.peer.sasl = SaslSession(secured.sasl.offer, self.peer.identity, self)
            self._reader.max_frame_bytes = min(
                listener.max_frame_bytes, secured.security.config.sasl_server_max_receive_size
            )
        listener.unready.set(self, self.last_active_ms + listener.handshake_timeout_ms)

    def _new_socket(self, descriptor: int) -> PolledSocket:
        stores, listener = self._secured.stores, self._listener
        if stores is None:
            return super()._new_socket(descriptor)
        return TlsSocket(
            listener.sockets,
            descriptor,
            self,
            context=stores.context,
            turns=listener.turns,
            buffer=listener.cipher_buffer,
            soon=listener.soon,
        )

    def _new_output(self, descriptor: int) -> Output:
        socket = self._socket
        if not isinstance(socket, TlsSocket):
            return super()._new_output(descriptor)
        return TlsOutput(
            self._listener.loop,
            descriptor,
            progressed=lambda: self._listener.guarded(self._progressed),
            failed=lambda: self._listener.guarded(self.abort),
            watch=socket.set_writing,
            seal=socket.seal,
            room=self._listener.plain_buffer,
        )

    def abort(self) -> None:
        """As KafkaConnection.abort."""
        if isinstance(self._socket, TlsSocket):
            self._socket.is_flushed = not self.unsent_bytes
        super().abort()

    def released(self) -> None:
        """As KafkaConnection.released."""
        if self.peer.sasl is not None:
            self.peer.sasl.close()
        super().released()

    # --- authentication ----------------------------------------------------------------------------------

    def secured(self, certificate: bytes | None) -> None:
        """Part of TlsOwner. Errors: ConnectionError for a certificate that names no user."""
        if self.peer.sasl is not None:
            self._takes_turns = True
            return
        if certificate is not None:
            try:
                name = self._secured.mapper.name_of(subject_name(certificate))
            except (NoRuleError, ValueError) as error:
                self._listener.note_failed_authentication(self.peer, _SSL, str(error))
                raise ConnectionError("the certificate names no user") from error
            self.peer.identity = Identity(user(name), self.peer.identity.host, _SSL)
            self._listener.tallies.of(self.peer.listener).authentications += 1
        self._listener.unready.remove(self)

    def handshake_failed(self, reason: str) -> None:
        """Part of TlsOwner."""
        self._listener.note_failed_handshake(self.peer, reason)

    def authenticated(self, identity: Identity) -> None:
        """Part of SaslOwner."""
        self.peer.identity = identity
        self._listener.tallies.of(self.peer.listener).authentications += 1
        self._takes_turns = False
        self._reader.min_frame_bytes = MIN_FRAME_BYTES
        self._reader.max_frame_bytes = self._listener.max_frame_bytes
        self._listener.unready.remove(self)

    def authentication_failed(self, mechanism: str, reason: str) -> None:
        """Part of SaslOwner."""
        self._listener.note_failed_authentication(self.peer, mechanism, reason)

    # --- requests ----------------------------------------------------------------------------------------

    def readable(self) -> None:
        """As KafkaConnection.readable, in turns until the client is authenticated."""
        if not self._takes_turns or self._has_turn_now:
            super().readable()
            return
        self._socket.set_reading(False)
        if not self._is_queued:
            self._is_queued = True
            self._listener.turns.add(self)

    def take_turn(self) -> None:
        """Part of Waiting."""
        self._is_queued = False
        if self._socket.is_closed or self._reading.is_paused:
            return  # what resumes the reading takes another turn
        self._socket.set_reading(True)
        self._has_turn_now = True
        try:
            super().readable()
        finally:
            self._has_turn_now = False

    def _answer_ready(self, frame: memoryview) -> bool:
        sasl = self.peer.sasl
        if sasl is not None and not sasl.is_open(self.last_active_ms):
            return False
        return super()._answer_ready(frame)

    def _start(self, frame: memoryview) -> bool:
        sasl = self.peer.sasl
        if sasl is not None:
            if sasl.takes_tokens:
                self._run(token_call(bytes(frame), self.peer, self._listener, self))
                return True
            fault = sasl.fault(int.from_bytes(frame[:2], "big", signed=True), self.last_active_ms)
            if fault:
                raise InvalidRequestError(fault)
        if not super()._start(frame):
            return False
        if sasl is not None and sasl.takes_tokens:
            self._reader.min_frame_bytes = 0
        return True
