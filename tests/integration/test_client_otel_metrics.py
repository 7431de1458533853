"""The metrics of clients, as a meter provider of OpenTelemetry collects them."""

import asyncio
from types import SimpleNamespace
from typing import Any

import headrace
import pytest
from headrace import aio
from headrace.clients.consumer import record_reader_io
from headrace.protocol.errors import MessageTooLargeError
from headrace.runtime.telemetry.client_table import CONSUMER_METRICS, MEMBER_METRICS, PRODUCER_METRICS
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader


def collected(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    """Data points by name."""
    data = reader.get_metrics_data()
    return {
        metric.name: list(metric.data.data_points)
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_clients_are_collected_until_they_are_closed() -> None:
    """Two producers under one name, with their client ids; the lag of a consumer by partition."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    with headrace.local() as cluster, cluster.admin() as admin:
        admin.create_topics(headrace.NewTopic("t", partitions=2)).raise_for_errors()
        first, second = (
            headrace.Producer(cluster.bootstrap, config={"client.id": name}) for name in ("a", "b")
        )
        headrace.export_metrics(first, meter_provider=provider)
        headrace.export_metrics(first, second, meter_provider=provider)
        for number in range(3):
            first.send("t", value=b"x", partition=number % 2)
        second.send("t", value=b"x", partition=0)
        first.flush()
        second.flush()
        points = collected(reader)["messaging.client.sent.messages"]
        assert {each.attributes["messaging.client.id"]: each.value for each in points} == {"a": 3, "b": 1}
        assert {each.attributes["messaging.system"] for each in points} == {"kafka"}
        assert {each.attributes["messaging.operation.name"] for each in points} == {"send"}
        assert collected(reader)["kafka.producer.record_error_total"][0].value == 0
        sends = collected(reader)["messaging.client.operation.duration"]
        facts = {"messaging.system": "kafka", "messaging.operation.name": "send"}
        assert dict(sends[0].attributes) == {
            **facts,
            "messaging.client.id": "a",
            "messaging.destination.name": "t",
        }
        assert sends[0].explicit_bounds[:3] == (0.005, 0.01, 0.025)
        assert 0 <= sends[0].sum < 60  # seconds
        second.close()
        (left,) = collected(reader)["messaging.client.sent.messages"]
        assert left.attributes["messaging.client.id"] == "a"
        first.close()
        with cluster.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
            headrace.export_metrics(consumer, meter_provider=provider)
            seen = 0
            while seen < 4:
                seen += len(consumer.poll(10))
            found = collected(reader)
            (consumed,) = found["messaging.client.consumed.messages"]
            assert consumed.value == 4
            consumer.commit()
            durations = {
                each.attributes["messaging.operation.name"]: each
                for each in collected(reader)["messaging.client.operation.duration"]
            }
            assert durations["commit"].count == 1
            assert durations["poll"].count >= 1
            assert durations["poll"].attributes["messaging.consumer.group.name"] == "g"
            assert consumed.attributes["messaging.consumer.group.name"] == "g"
            lags = found["kafka.consumer.records_lag"]
            assert {
                (
                    each.attributes["messaging.destination.name"],
                    each.attributes["messaging.destination.partition.id"],
                )
                for each in lags
            } == {("t", "0"), ("t", "1")}
    provider.shutdown()


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="producers, consumers, stream instances and pipelines, not of dict"):
        headrace.export_metrics({}, meter_provider=MeterProvider())


def test_failed_sends_of_asyncio_have_the_error() -> None:
    """The durations of batches that failed are apart, by the class of their error."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])

    async def send(bootstrap: tuple[str, ...]) -> dict[Any, int]:
        async with aio.AsyncProducer(bootstrap) as producer:
            headrace.export_metrics(producer, meter_provider=provider)
            await producer.send("t", b"x")
            with pytest.raises(MessageTooLargeError):
                await producer.send("t", b"x" * 1000)
            return {
                each.attributes.get("error.type"): each.count
                for each in collected(reader)["messaging.client.operation.duration"]
            }

    with headrace.local() as cluster, cluster.admin() as admin:
        admin.create_topics(headrace.NewTopic("t", configs={"max.message.bytes": 200})).raise_for_errors()
        assert asyncio.run(send(cluster.bootstrap)) == {None: 1, "MessageTooLargeError": 1}
    provider.shutdown()


def test_poll_lasts_from_the_call_that_returns_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not from an earlier call that returned none."""
    clock = SimpleNamespace(now_s=1.0)
    monkeypatch.setattr(record_reader_io, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    with headrace.local() as cluster, cluster.admin() as admin, cluster.producer() as producer:
        admin.create_topics(headrace.NewTopic("t")).raise_for_errors()
        with cluster.consumer("t", auto_offset_reset="earliest") as consumer:
            headrace.export_metrics(consumer, meter_provider=provider)
            assert consumer.metrics()["last-poll-seconds-ago"] == -1
            assert consumer.poll(0.01) == []
            clock.now_s += 100
            assert collected(reader)["kafka.consumer.last_poll_seconds_ago"][0].value == 100
            producer.send("t", b"x").result(60)
            assert len(consumer.poll(60)) == 1
            (poll,) = collected(reader)["messaging.client.operation.duration"]
    assert (poll.count, poll.sum) == (1, 0)
    provider.shutdown()


def test_every_metric_of_clients_is_declared() -> None:
    """Those of a transactional producer and of a group's consumer; all that are declared exist."""
    with headrace.local() as cluster, cluster.admin() as admin:
        admin.create_topics(headrace.NewTopic("t")).raise_for_errors()
        with cluster.producer(transactional_id="x") as producer:
            assert producer.metrics().keys() == PRODUCER_METRICS.keys()
        with cluster.consumer("t", group="g") as consumer:
            names = {name for name in consumer.metrics() if not name.startswith("t-")}
            assert names == CONSUMER_METRICS.keys() | MEMBER_METRICS.keys()
