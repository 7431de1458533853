"""Makes the pure parts of a producer from its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cluster.backoff import Backoff
from .accumulator import AccumulatorLimits
from .sender import Sender
from .sequences import Sequences

if TYPE_CHECKING:
    from ...runtime.random_source import RandomSource
    from ..config import ProducerConfig
    from .accumulator import Accumulator
    from .sender import Split, Without


def limits_of(config: ProducerConfig) -> AccumulatorLimits:
    """The limits of batches and of the buffer."""
    return AccumulatorLimits(
        config.linger_ms,
        config.batch_size,
        max(config.max_request_size, config.batch_size),
        config.buffer_memory,
        config.delivery_timeout_ms,
        config.partitioner_adaptive,
    )


def sender_of(
    config: ProducerConfig, accumulator: Accumulator, split: Split, without: Without, random: RandomSource
) -> Sender:
    """The sender, idempotent or not."""
    is_transactional = config.transactional_id is not None
    return Sender(
        accumulator,
        Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random),
        split,
        without,
        acks=config.acks_number,
        retries=config.retries,
        max_in_flight=config.max_in_flight,
        max_request_bytes=max(config.max_request_size, config.batch_size),
        sequences=Sequences(is_transactional=is_transactional) if config.is_idempotent else None,
    )
