"""Argument names of other Kafka clients (kafka-python, confluent-kafka, aiokafka), for error messages. Pure.

A name of another client is rejected with headrace's name, or with the alternative.
"""

from __future__ import annotations

from collections.abc import Mapping

_BOOTSTRAP = "use `bootstrap`"
_SERDE = "use `{0}=` with a serde such as headrace.json, or any callable"
_LOGGING = "not needed: errors are exceptions, the rest goes to the loggers `headrace.*`"
_METRICS = "use `metrics()` of the client"
_LISTENER = "use `listener=` with on_assigned, on_revoked, on_lost"
_SSL = (
    "on this plane servers have CURVE keys instead of certificates: use `security_protocol='SASL_SSL'` and"
    " `server_public_key` or `trusted_server_keys_file`"
)
_MECHANISM = "use `sasl_mechanism`"
_TOKEN = "use `sasl_oauthbearer_token` or `sasl_oauthbearer_token_file`"  # noqa: S105 - no secret
_JAAS = "use `username` and `password`"
_GSSAPI = "use `sasl_kerberos_service_name`, `sasl_kerberos_principal` and `sasl_kerberos_keytab`"
_NOT_NEEDED = "not needed: leave it out"
_DONE = "use `add_done_callback` of the future that `send` returns"

_ADVICE: Mapping[str, str] = {
    # connections
    "bootstrap_servers": _BOOTSTRAP,
    "bootstrap_server": _BOOTSTRAP,
    "metadata_broker_list": _BOOTSTRAP,
    "brokers": _BOOTSTRAP,
    "api_version": _NOT_NEEDED,
    "api_version_auto_timeout_ms": _NOT_NEEDED,
    "api_version_request": _NOT_NEEDED,
    "broker_version_fallback": _NOT_NEEDED,
    "loop": "not needed: a client of headrace.aio uses the running loop",
    "socket_timeout_ms": "use `request_timeout_ms`",
    "topic_metadata_refresh_interval_ms": "use `metadata_max_age_ms`",
    "connections_max_idle_ms": "not supported: connections stay open",
    "error_cb": _LOGGING,
    "logger": _LOGGING,
    "log_level": _LOGGING,
    "debug": _LOGGING,
    "stats_cb": _METRICS,
    "statistics_interval_ms": _METRICS,
    "metric_reporters": _METRICS,
    "metrics_enabled": _METRICS,
    # producers
    "key_serializer": _SERDE.format("key"),
    "value_serializer": _SERDE.format("value"),
    "request_required_acks": "use `acks`",
    "compression_codec": "use `compression_type`",
    "compression_level": "use `compression_gzip_level`, `compression_lz4_level` or `compression_zstd_level`",
    "queue_buffering_max_ms": "use `linger_ms`",
    "queue_buffering_max_kbytes": "use `buffer_memory` (bytes)",
    "queue_buffering_max_messages": "use `buffer_memory` (bytes)",
    "batch_num_messages": "use `batch_size` (bytes)",
    "max_batch_size": "use `batch_size`",
    "message_timeout_ms": "use `delivery_timeout_ms`",
    "message_send_max_retries": "use `retries`",
    "message_max_bytes": "use `max_request_size`",
    "max_in_flight_requests": "use `max_in_flight`",
    "sticky_partitioning_linger_ms": "not needed: records without a key share a partition up to batch.size",
    "on_delivery": _DONE,
    "dr_cb": _DONE,
    "dr_msg_cb": _DONE,
    # consumers
    "key_deserializer": _SERDE.format("key"),
    "value_deserializer": _SERDE.format("value"),
    "topics": "pass topics as positional arguments: Consumer('a', 'b', ...)",
    "consumer_timeout_ms": "use `iter_timeout` (seconds)",
    "fetch_wait_max_ms": "use `fetch_max_wait_ms`",
    "fetch_message_max_bytes": "use `max_partition_fetch_bytes`",
    "enable_auto_offset_store": "use `enable_auto_commit=False` and `commit(record)`",
    "enable_partition_eof": "compare `position` with `end_offsets`",
    "rebalance_listener": _LISTENER,
    "on_assign": _LISTENER,
    "on_revoke": _LISTENER,
    "on_lost": _LISTENER,
    "rebalance_cb": _LISTENER,
    "allow_auto_create_topics": "not supported: create topics with `Admin.create_topics`",
    "auto_create_topics": "not supported: create topics with `Admin.create_topics`",
    "topic": "pass topics as positional arguments: Consumer('a', 'b', ...), producer.send('a', ...)",
    # new topics
    "num_partitions": "use `partitions` of NewTopic",
    "new_partitions": "use `partitions` of NewTopic",
    "replica_assignment": "use `assignments` of NewTopic",
    "replica_assignments": "use `assignments` of NewTopic",
    "topic_configs": "use `configs` of NewTopic",
}
_OF_NEW_TOPIC: Mapping[str, str] = {"topic": "use `name`"}
_SECURITY: Mapping[str, str] = {
    "sasl_mechanisms": _MECHANISM,
    "sasl_plain_username": "use `username`",
    "sasl_plain_password": "use `password`",
    "user": "use `username`",
    "sasl_jaas_config": _JAAS,
    "sasl_oauth_token_provider": _TOKEN,
    "oauth_cb": _TOKEN,
}
_SECURITY_STARTS: Mapping[str, str] = {
    "ssl_": _SSL,
    "enable_ssl": _SSL,
    "sasl_oauthbearer": _TOKEN,
    "sasl_kerberos": _GSSAPI,
    "sasl_gssapi": _GSSAPI,
    "security_": _SSL,
    "oauth": _TOKEN,
}
_SECRET_PARTS = ("password", "sasl_", "ssl_", "security_", "oauth", "token")


def advice_for(name: str) -> str | None:
    """The alternative to another client's name, dotted or underscored; None for an unknown name."""
    plain = name.replace(".", "_").lower()
    if plain in _SECURITY:
        return _SECURITY[plain]
    for start, advice in _SECURITY_STARTS.items():
        if plain.startswith(start):
            return advice
    return _ADVICE.get(plain)


def general_advice(name: str) -> str | None:
    """For a key that has neither `advice_for` nor a similar name; None for most."""
    return _MECHANISM if name.replace(".", "_").lower().startswith("sasl_") else None


def refuse_foreign(names: Mapping[str, object]) -> None:
    """Errors: TypeError for the first name of another client among the parameters of NewTopic, with
    headrace's name."""
    for name in names:
        advice = _OF_NEW_TOPIC.get(name) or advice_for(name)
        if advice is not None:
            raise TypeError(f"{name!r} is not a name of headrace; {advice}")


def refuse_mapping(given: object) -> None:
    """Errors: TypeError for a config dict in place of addresses or topics, as confluent-kafka's clients take
    one; with the correct arguments."""
    if not isinstance(given, Mapping):
        return
    rest = dict(given)
    found = [rest.pop(name) for name in list(rest) if advice_for(str(name)) == _BOOTSTRAP]
    config = ""
    if rest:
        config = ", config=..." if any(map(is_secret, rest)) else f", config={rest!r}"
    address = found[0] if found else "host:9092"
    raise TypeError(
        f"a config dict must not be the first argument of a client; pass bootstrap={address!r}{config}"
    )


def is_secret(name: object) -> bool:
    """Whether the value of a key, headrace's or another client's, must not be shown."""
    plain = str(name).replace(".", "_").lower()
    return any(part in plain for part in _SECRET_PARTS)
