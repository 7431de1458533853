"""Keyword arguments of the clients, typed for checkers: the keys declared in config.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable


class ConnectionOptions(TypedDict, total=False):
    """Keyword arguments of every client that opens its own connections, and of `connect`."""

    client_id: str
    metadata_max_age_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    security_protocol: str
    sasl_mechanism: str
    username: str
    sasl_username: str
    password: str
    sasl_password: str
    sasl_tokenauth: bool
    sasl_oauthbearer_token: str
    sasl_oauthbearer_token_file: str
    sasl_kerberos_service_name: str
    sasl_kerberos_principal: str
    sasl_kerberos_keytab: str
    server_public_key: str | Iterable[str]
    trusted_server_keys_file: str


class ProducerOptions(ConnectionOptions, total=False):
    """Keyword arguments of a producer: the keys of ProducerConfig and ConnectionConfig."""

    acks: str | int
    linger_ms: int
    batch_size: int
    compression_type: str | None
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    enable_idempotence: bool
    transactional_id: str | None
    transaction_timeout_ms: int
    max_in_flight: int
    max_in_flight_requests_per_connection: int
    retries: int
    delivery_timeout_ms: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    partitioner_adaptive: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_ignore_keys: bool
    enable_tracing: bool
    tracing_message_keys: bool
    tracing_sampling_unit: str
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class ConsumerOptions(ConnectionOptions, total=False):
    """Keyword arguments of a consumer: the keys of ConsumerConfig and ConnectionConfig."""

    auto_offset_reset: str
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    max_poll_records: int
    check_crcs: bool
    client_rack: str
    isolation_level: str
    group: str | None
    group_id: str | None
    group_instance_id: str
    group_protocol: str
    group_remote_assignor: str
    partition_assignment_strategy: str | Iterable[str]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    exclude_internal_topics: bool
    enable_tracing: bool
    tracing_message_keys: bool
    default_api_timeout_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class AdminOptions(ConnectionOptions, total=False):
    """Keyword arguments of an admin client: the keys of AdminConfig and ConnectionConfig."""

    default_api_timeout_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
