"""Spans of the input records of stream tasks, with enable.tracing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...clients.cluster.environment_io import resolved
from ...clients.config import ConnectionConfig, ConsumerConfig, given
from ...clients.tracing.enabling_io import consumer_tracing

if TYPE_CHECKING:
    from ..task.traced_node import AroundRecord
    from .plan import AppPlan


def around_records(plan: AppPlan) -> AroundRecord | None:
    """What is around the processing of each input record; None without tracing."""
    values = given(plan.client_configs["main.consumer"], {}, (ConsumerConfig, ConnectionConfig))
    config = resolved(ConsumerConfig, values)
    tracing = consumer_tracing(config, values.get("client.id", ""))
    return None if tracing is None else tracing.process
