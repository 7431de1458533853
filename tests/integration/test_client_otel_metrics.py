"""The metrics of clients, as a meter provider of OpenTelemetry collects them."""

from typing import Any

import headrace
import pytest
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
    with pytest.raises(TypeError, match="export_metrics takes producers and consumers, not dict"):
        headrace.export_metrics({}, meter_provider=MeterProvider())
