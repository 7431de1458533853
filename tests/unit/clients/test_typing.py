"""What type checkers say of the clients: `make types` reads what stands under TYPE_CHECKING here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from headrace.clients import options
from headrace.clients.config import AdminConfig, ConnectionConfig, ConsumerConfig, ProducerConfig

if TYPE_CHECKING:
    from typing import assert_type
    from uuid import UUID

    import headrace
    from headrace import Consumer, Producer, TopicPartition, errors
    from headrace.aio import AsyncCluster, AsyncConsumer, AsyncProducer

    class Assigned:
        def on_assigned(self, consumer: object, partitions: tuple[TopicPartition, ...]) -> None: ...

    class Nothing:
        def assigned(self) -> None: ...

    class Traces:
        def on_send(self, record: object) -> None: ...

    def skip(record: headrace.Record[bytes, bytes], error: errors.SerializationError) -> None: ...

    def keys_and_values_keep_their_types(
        cluster: headrace.Cluster, local: headrace.LocalCluster, aio: AsyncCluster
    ) -> None:
        assert_type(cluster.producer(), Producer[bytes, bytes])
        assert_type(cluster.producer(key=headrace.utf8, value=headrace.uuid), Producer[str, UUID])
        assert_type(local.producer(value=headrace.int64), Producer[bytes, int])
        assert_type(aio.producer(key=headrace.utf8), AsyncProducer[str, bytes])
        assert_type(cluster.consumer("t", value=headrace.utf8, group_id="g"), Consumer[bytes, str])
        assert_type(local.consumer("t"), Consumer[bytes, bytes])
        assert_type(aio.consumer("t", key=headrace.int64), AsyncConsumer[int, bytes])
        assert_type(headrace.connect("a:1").producer(value=headrace.utf8), Producer[bytes, str])
        assert_type(headrace.local().producer(value=headrace.utf8), Producer[bytes, str])

    def what_runs_is_typed(cluster: headrace.Cluster) -> None:
        strategy = ["range", "sticky"]
        headrace.Consumer("t", listener=Assigned(), partition_assignment_strategy=strategy, group_id="g")
        cluster.producer(interceptors=[Traces()])
        cluster.consumer("t", on_deserialize_error=skip)

    def what_is_wrong_is_refused(cluster: headrace.Cluster) -> None:  # strict mypy: an ignore must be needed
        cluster.producer(value=headrace.utf8).send("t", 7)  # type: ignore[arg-type]
        cluster.producer(linger=7)  # type: ignore[call-arg]
        cluster.consumer("t", listener=Nothing())  # type: ignore[arg-type]
        cluster.consumer("t", on_deserialize_error=lambda record: None)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("schema", "typed"),
    [
        (ConnectionConfig, options.ConnectionOptions),
        (ProducerConfig, options.ProducerOptions),
        (ConsumerConfig, options.ConsumerOptions),
        (AdminConfig, options.AdminOptions),
    ],
)
def test_every_config_key_is_a_typed_keyword_argument(schema: Any, typed: Any) -> None:
    """Under Kafka's name with underscores, and every typed argument is a key."""
    names = {name.replace(".", "_") for name in schema.keys()}  # noqa: SIM118 - a classmethod of Config
    assert names <= set(typed.__annotations__)
    known = names | {schema.field_of(name) for name in schema.keys()}  # noqa: SIM118
    connection = set(options.ConnectionOptions.__annotations__)
    assert set(typed.__annotations__) - connection <= known
