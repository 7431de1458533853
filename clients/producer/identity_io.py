"""The producer id of an idempotent producer without transactions, from any node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.errors import ApiTimeoutError, KafkaError, error_from_code
from ...protocol.messages.registry import INIT_PRODUCER_ID
from ...protocol.messages.transactions import InitProducerIdRequest
from ..cluster.backoff import Backoff
from .batches import Identity

if TYPE_CHECKING:
    from ..cluster.hub_io import Hub
    from ..config import ProducerConfig


async def new_identity(hub: Hub, config: ProducerConfig) -> Identity:
    """A new producer id; retries until a node assigns one, while batches wait until their deadlines. Errors:
    KafkaError that is not retriable."""
    backoff, failures = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, hub.random), 0
    timeout_ms = config.request_timeout_ms
    while True:
        try:
            reply = await hub.metadata.request_any(
                INIT_PRODUCER_ID,
                InitProducerIdRequest(),
                deadline_ms=hub.now_ms() + timeout_ms,
                attempt_ms=timeout_ms,
            )
        except ApiTimeoutError:
            continue
        if not reply.body.error_code:
            return Identity(reply.body.producer_id, reply.body.producer_epoch)
        error: KafkaError = error_from_code(reply.body.error_code, reply.body.error_detail)
        if not error.retriable:
            raise error
        failures += 1
        await asyncio.sleep(backoff.wait_ms(failures) / 1000)
