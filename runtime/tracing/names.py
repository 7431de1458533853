"""Names of spans and attributes, by the semantic conventions of OpenTelemetry for messaging. Pure.

All names are here, because the conventions are still in development: releases rename attributes.
OTEL_SEMCONV_STABILITY_OPT_IN chooses, as the conventions say: without it the names of 1.44; `messaging` has
the names that follow them, `messaging/dup` both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

AttributeValue: TypeAlias = str | int | bool

OPT_IN_VARIABLE = "OTEL_SEMCONV_STABILITY_OPT_IN"
SCOPE = "headrace"  # the instrumentation scope of all tracers
SERVER_SERVICE = "headrace"  # service.name of servers without OTEL_SERVICE_NAME

# Operations: the first word of a span's name.
SEND = "send"
POLL = "poll"
PROCESS = "process"
COMMIT = "commit"
APPEND = "append"
REPLICATE = "replicate"
FETCH = "fetch"
_TYPES = {SEND: "send", POLL: "receive", PROCESS: "process", COMMIT: "settle"}

_NAMES_1_44 = {
    "system": "messaging.system",
    "operation": "messaging.operation.name",
    "operation_type": "messaging.operation.type",
    "destination": "messaging.destination.name",
    "partition": "messaging.destination.partition.id",
    "group": "messaging.consumer.group.name",
    "client_id": "messaging.client.id",
    "batch_count": "messaging.batch.message_count",
    "offset": "messaging.kafka.offset",
    "key": "messaging.kafka.message.key",
    "is_tombstone": "messaging.kafka.message.tombstone",
    "cluster_id": "messaging.kafka.cluster.id",
    "body_bytes": "messaging.message.body.size",
    "error": "error.type",
    "host": "server.address",
    "port": "server.port",
    "node_id": "headrace.node.id",
    "last_offset": "headrace.batch.last_offset",
    "acks": "headrace.acks",
}
_RENAMED = {
    "system": "messaging.system.name",
    "offset": "kafka.offset",
    "key": "kafka.message.key",
    "is_tombstone": "kafka.message.tombstone",
    "cluster_id": "kafka.cluster.id",
}


class Names:
    """The names by one setting of OTEL_SEMCONV_STABILITY_OPT_IN."""

    def __init__(self, opt_in: str = "") -> None:
        chosen = {part.strip() for part in opt_in.split(",")}
        self._names: dict[str, tuple[str, ...]] = {}
        for fact, name in _NAMES_1_44.items():
            later = _RENAMED.get(fact, name)
            if "messaging/dup" in chosen and later != name:
                self._names[fact] = (name, later)
            else:
                self._names[fact] = (later if "messaging" in chosen else name,)

    def attributes(self, facts: Mapping[str, AttributeValue | None]) -> dict[str, AttributeValue]:
        """Attributes of facts by their short names above; facts of None or "" are left out."""
        return {
            name: value
            for fact, value in facts.items()
            if value is not None and value != ""
            for name in self._names[fact]
        }

    def of_operation(
        self, operation: str, topic: str, **facts: AttributeValue | None
    ) -> dict[str, AttributeValue]:
        """Attributes of a span of this operation."""
        return self.attributes(
            {
                "system": "kafka",
                "operation": operation,
                "operation_type": _TYPES.get(operation),
                "destination": topic,
                **facts,
            }
        )


def span_name(operation: str, topic: str) -> str:
    """For example `send orders`."""
    return f"{operation} {topic}" if topic else operation
