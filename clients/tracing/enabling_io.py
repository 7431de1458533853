"""Tracing of a client, if its configuration enables it: only then is OpenTelemetry imported."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from ..config import ConsumerConfig, ProducerConfig
    from .consuming_io import ConsumerTracing
    from .producing_io import ProducerTracing

log = logging.getLogger("headrace.client")


def producer_tracing(config: ProducerConfig, client_id: str) -> ProducerTracing | None:
    """None if the producer makes no spans."""
    provider = _provider() if config.enable_tracing else None
    if provider is None:
        return None
    from .producing_io import ProducerTracing

    return ProducerTracing(provider, config, client_id)


def consumer_tracing(config: ConsumerConfig, client_id: str) -> ConsumerTracing | None:
    """None if the consumer makes no spans."""
    provider = _provider() if config.enable_tracing else None
    if provider is None:
        return None
    from .consuming_io import ConsumerTracing

    return ConsumerTracing(provider, config, client_id)


def _provider() -> TracerProvider | None:
    from ...runtime.tracing.sdk_io import process_provider

    provider = process_provider()
    if provider is None:
        log.warning(
            "enable.tracing is true, but this process has no tracer provider: no spans are made; call"
            " opentelemetry.trace.set_tracer_provider before the client is made"
        )
    return provider
