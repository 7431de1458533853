"""Creates the Kafka listener, if its library is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError
from ...runtime.extras import missing_extra

if TYPE_CHECKING:
    from ...storage_node.configs.listener_security import ListenerSecurity
    from ...storage_node.edge.gateway import Gateway, GatewayHost
    from .listener_io import KafkaListener, Secured


def new_kafka_listener(host: GatewayHost) -> Gateway:
    """A GatewayFactory. Errors: ConfigError without kio, the library of Kafka's messages."""
    try:
        from .listener_io import KafkaListener
    except ImportError as error:
        raise ConfigError(str(missing_extra(error, "The config key `listeners`", "kafka"))) from error
    return KafkaListener(host, _new_secured)


def _new_secured(security: ListenerSecurity, listener: KafkaListener) -> Secured:
    """For a listener with TLS or SASL. Errors: ConfigError, also without the libraries of the extra."""
    try:
        from .secured_io import SecuredListener
    except ImportError as error:
        purpose = "The config key `listener.security.protocol.map`"
        raise ConfigError(str(missing_extra(error, purpose, "security"))) from error
    return SecuredListener(security, listener)
