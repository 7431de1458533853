"""Keys of producer state and transactions in partitions, under Kafka's names. Source: Kafka
TransactionLogConfig.java, AddPartitionsToTxnConfig.java; KIP-854, KIP-890."""

from __future__ import annotations

from dataclasses import dataclass

from ...runtime.config import DAY, MAX_INT, MINUTE, Config, key


@dataclass(frozen=True, kw_only=True)
class TransactionConfig(Config):
    """The keys of a storage node for idempotent and transactional producers."""

    producer_id_expiration_ms: int = key(
        "producer.id.expiration.ms",
        1 * DAY,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="How long a partition keeps the state of an inactive producer id without an open transaction.",
    )
    producer_id_expiration_check_interval_ms: int = key(
        "producer.id.expiration.check.interval.ms",
        10 * MINUTE,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Interval of the check for expired producer ids.",
    )
    add_partitions_to_txn_retry_backoff_ms: int = key(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Backoff of adding a partition to a transaction while the previous one is being completed.",
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = key(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        low=0,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="After this long the producer gets CONCURRENT_TRANSACTIONS for the previous transaction.",
    )
