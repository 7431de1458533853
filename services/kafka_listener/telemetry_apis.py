"""GetTelemetrySubscriptions and PushTelemetry. Pure."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from .calls import Call, KafkaApi, error_alone
from .entities import id_of
from .telemetry import COMPRESSIONS, RESERVED_IDS, Client

if TYPE_CHECKING:
    from .telemetry import SubscribedMetrics


def _subscriptions(call: Call) -> None:
    instance_id = id_of(call.body.client_instance_id)
    if instance_id == bytes(16):
        instance_id = _new_id(call)
    peer, plane = call.peer, call.plane
    subscribed = plane.telemetry.get(
        call.host.image.configs, _client(call, instance_id), peer.session, plane.now_ms()
    )
    call.answer(_subscribed(subscribed, instance_id, call.host.config.now.telemetry_max_bytes))


def _subscribed(subscribed: SubscribedMetrics, instance_id: bytes, max_bytes: int) -> dict[str, Any]:
    return {
        "error_code": 0,
        "client_instance_id": instance_id,
        "subscription_id": subscribed.subscription_id,
        "accepted_compression_types": COMPRESSIONS,
        "push_interval": subscribed.interval_ms,
        "telemetry_max_bytes": max_bytes,
        "delta_temporality": True,
        "requested_metrics": subscribed.metrics,
    }


def _subscriptions_failed(_call: Call, code: int, _text: str) -> dict[str, Any]:
    return {
        "error_code": code,
        "client_instance_id": bytes(16),
        "subscription_id": 0,
        "accepted_compression_types": (),
        "push_interval": 0,
        "telemetry_max_bytes": 0,
        "delta_temporality": False,
        "requested_metrics": (),
    }


def _push(call: Call) -> None:
    peer, plane = call.peer, call.plane
    client = _client(call, id_of(call.body.client_instance_id))
    max_bytes = call.host.config.now.telemetry_max_bytes
    plane.telemetry.push(call.host.image.configs, client, peer.session, call.body, max_bytes, plane.now_ms())
    call.answer({"error_code": 0})


def _client(call: Call, instance_id: bytes) -> Client:
    peer = call.peer
    address, _, port = peer.address.rpartition(":")
    return Client(instance_id, peer.client_id, *peer.software, address, port)


def _new_id(call: Call) -> bytes:
    while True:
        made = uuid.UUID(call.plane.new_member_id()).bytes
        if made not in RESERVED_IDS and not call.plane.telemetry.is_known(made):
            return made


TELEMETRY_APIS = (
    KafkaApi(71, "GetTelemetrySubscriptions", 0, 0, _subscriptions, _subscriptions_failed),
    KafkaApi(72, "PushTelemetry", 0, 0, _push, error_alone),
)
