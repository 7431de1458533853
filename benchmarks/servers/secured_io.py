"""Listeners with TLS for both systems, and CURVE between headrace's clients and servers: files and settings.

Both systems have the same certificate, and the same user of PLAIN, whose password is compared once for each
connection; there is no authorizer.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.protocol.security.server_keys import CONTROLLER, NODE, ServerName
from headrace.runtime.ports_io import reserve_ports
from headrace.runtime.server_security_config import SSL
from headrace.services.certificates import CertificateAuthority
from headrace.services.server_keys_io import ServerKeyFolder

from ..harness import TlsAddress

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_USER, _PASSWORD = "bench", "bench-secret"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_JAAS = f'{_MODULE} required user_{_USER}="{_PASSWORD}";'
_SASL_SSL, _SSL = "SASL_SSL", "SSL"


class TlsListeners:
    """The two listeners of one node: SASL_SSL, and SSL for clients without a user."""

    def __init__(self, folder: Path) -> None:
        """Makes the files in `folder`."""
        now = datetime.now(UTC)
        authority = CertificateAuthority.create("benchmark", now)
        issued = authority.issue("node", ["localhost", "127.0.0.1"], now)
        self._ca, self._store = folder / "ca.pem", folder / "node.pem"
        self._ca.write_text(authority.to_pem().chain)
        self._store.write_text(issued.key + issued.chain)
        self._ports = dict(zip((_SASL_SSL, _SSL), reserve_ports(2), strict=True))

    @property
    def address(self) -> TlsAddress:
        """For clients."""
        login = f'{_MODULE} required username="{_USER}" password="{_PASSWORD}";'
        java = {
            "security.protocol": _SASL_SSL,
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": login,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._ca),
        }
        addresses = [f"127.0.0.1:{self._ports[name]}" for name in (_SASL_SSL, _SSL)]
        return TlsAddress(addresses[0], addresses[1], str(self._ca), java)

    def settings(self, plaintext: Mapping[str, int]) -> dict[str, str]:
        """Of both systems. `plaintext`: the ports of their other listeners."""
        ports = {**plaintext, **self._ports}
        return {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._store),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": _JAAS,
        }

    def kafka_settings(self, broker: int, controller: int) -> dict[str, str]:
        """Of Kafka, with the ports of its own listeners."""
        names = ("PLAINTEXT", _SASL_SSL, _SSL)
        ports = (broker, *self._ports.values())
        return {
            **self.settings({"PLAINTEXT": broker, "CONTROLLER": controller}),
            "advertised.listeners": ",".join(
                f"{name}://127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)
            ),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,"
            + ",".join(f"{name}:{name}" for name in names),
            "inter.broker.listener.name": "PLAINTEXT",
        }


class CurveKeys:
    """CURVE keys of one controller and one node, which native clients need no user for."""

    def __init__(self, folder: Path) -> None:
        self._keys = ServerKeyFolder(folder)
        self._keys.make([ServerName(CONTROLLER, 1), ServerName(NODE, 1)])
        self.controller, self.node = (
            {"native.security.protocol": SSL, **self._keys.config_of(ServerName(kind, 1))}
            for kind in (CONTROLLER, NODE)
        )

    @property
    def client(self) -> dict[str, str]:
        """The config of a client."""
        return {"security.protocol": SSL, "trusted.server.keys.file": str(self._keys.trusted_file)}
