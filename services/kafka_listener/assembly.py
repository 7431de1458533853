"""Creates the Kafka listener, if its library is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError
from ...runtime.extras import missing_extra

if TYPE_CHECKING:
    from ...storage_node.edge.gateway import Gateway, GatewayHost


def new_kafka_listener(host: GatewayHost) -> Gateway:
    """A GatewayFactory. Errors: ConfigError without kio, the library of Kafka's messages."""
    try:
        from .listener_io import KafkaListener
    except ImportError as error:
        raise ConfigError(str(missing_extra(error, "The config key `listeners`", "kafka"))) from error
    return KafkaListener(host)
