"""The listener for Kafka's clients, if it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError
from ...runtime.extras import missing_extra

if TYPE_CHECKING:
    from ...storage_node.edge.gateway import Gateway, GatewayHost


def new_kafka_listener(host: GatewayHost) -> Gateway:
    """For a node; a GatewayFactory. Errors: ConfigError without the library that knows Kafka's messages."""
    try:
        from .listener_io import KafkaListener
    except ImportError as error:
        raise ConfigError(str(missing_extra(error, "The config key `listeners`", "kafka"))) from error
    return KafkaListener(host)
