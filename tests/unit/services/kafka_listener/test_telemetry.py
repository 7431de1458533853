"""Client metrics: subscriptions, push intervals, and bounds of the stored metrics."""

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
from headrace.protocol import errors as e
from headrace.protocol.records.compression import compress
from headrace.protocol.records.header import Compression
from headrace.services.kafka_listener.otlp import MAX_NAME, points_of
from headrace.services.kafka_listener.telemetry import (
    MAX_CLIENTS,
    MAX_POINTS_PER_CLIENT,
    Client,
    ClientTelemetry,
    subscription_id,
    text_of_id,
)
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

ID = bytes(range(16))
CLIENT = Client(ID, "app-1", "apache-kafka-java", "4.1.0", "127.0.0.1", "5000")
MAX_BYTES = 100_000


def configs(**subscriptions: dict[str, str]) -> dict[tuple[int, str], dict[str, str]]:
    return {
        (16, name): {k.replace("_", "."): v for k, v in each.items()} for name, each in subscriptions.items()
    }


def payload(**values: float) -> bytes:
    """Gauges, and delta sums for names that begin with `sum`."""
    made = MetricsData()
    metrics = made.resource_metrics.add().scope_metrics.add().metrics
    for name, value in values.items():
        metric = metrics.add(name=name)
        if name.startswith("sum"):
            metric.sum.aggregation_temporality = 1
            metric.sum.data_points.add(as_int=int(value))
        else:
            point = metric.gauge.data_points.add(as_double=value)
            point.attributes.add(key="topic").value.string_value = "t"
    return made.SerializeToString()


class Rig:
    """The telemetry of one node, and its clock."""

    def __init__(self, **subscriptions: dict[str, str]) -> None:
        self.telemetry, self.now_ms = ClientTelemetry(), 1_000_000
        self.configs = configs(**subscriptions)

    def get(self, client: Client = CLIENT, session: int = 1) -> Any:
        return self.telemetry.get(self.configs, client, session, self.now_ms)

    def push(self, data: bytes = b"", subscription: int | None = None, **more: Any) -> None:
        if subscription is None:
            subscription = subscription_id(*self.wanted, ID)
        given = {
            "subscription_id": subscription,
            "terminating": False,
            "compression_type": 0,
            "metrics": data,
        }
        body = SimpleNamespace(**(given | more))
        self.telemetry.push(self.configs, CLIENT, 1, body, MAX_BYTES, self.now_ms)

    @property
    def wanted(self) -> tuple[tuple[str, ...], int]:
        return ("*",), 1_000

    @property
    def shown(self) -> dict[str, Any]:
        return self.telemetry.status()["clients"][text_of_id(ID)]


@pytest.fixture
def rig() -> Rig:
    """A client that is to push everything each second."""
    made = Rig(all={"metrics": "*", "interval_ms": "1000"})
    made.get()
    return made


def test_a_client_gets_the_union_of_matching_subscriptions() -> None:
    """Sorted, at the shortest interval; all metrics if one has all; without any, none at five minutes."""
    rig = Rig(
        a={"metrics": "b.,a.", "interval_ms": "9000"},
        b={"metrics": "c.", "interval_ms": "7000", "match": "client_id=app-\\d+,client_software_name=.*java"},
        other={"metrics": "*", "interval_ms": "100", "match": "client_id=app"},
    )
    response = rig.get()
    assert (response.metrics, response.interval_ms) == (("a.", "b.", "c."), 7_000)
    short = rig.get(CLIENT._replace(instance_id=b"i" * 16, client_id="app"), 2)
    assert (short.metrics, short.interval_ms) == (("*",), 100)
    unmatched = Rig(late={"metrics": "x", "interval_ms": "3600000", "match": "client_source_port=1"}).get()
    assert (unmatched.metrics, unmatched.interval_ms) == ((), 300_000)
    by_id = Rig(one={"metrics": "x", "match": f"client_instance_id={text_of_id(ID)}"}).get()
    assert by_id.metrics == ("x",)


def test_the_subscription_id_is_kafkas() -> None:
    """CRC-32C of Java's string of the list and the interval, and the hash code of the id, as an int32."""
    assert (
        subscription_id(("*",), 5_000, bytes(15) + b"\x07") == subscription_id(("*",), 5_000, bytes(16)) ^ 7
    )
    found = {subscription_id(names, ms, ID) for names in ((), ("*",), ("a", "b")) for ms in (100, 101)}
    assert len(found) == 6
    assert all(-(2**31) <= each < 2**31 for each in found)


def test_requests_before_the_interval_is_over_are_throttled(rig: Rig) -> None:
    """Except for the first push after a subscription, and the terminating one."""
    rig.push(payload(a=1))
    for act in (rig.push, rig.get):
        with pytest.raises(e.ThrottlingQuotaExceededError):
            act()
    assert rig.shown["throttle"] == 2
    rig.now_ms += 999
    with pytest.raises(e.ThrottlingQuotaExceededError):
        rig.push()
    rig.now_ms += 1
    rig.push(payload(a=2))
    rig.push(payload(a=3), terminating=True)
    assert rig.shown["metrics"] == {'a{topic="t"}': 3.0}
    with pytest.raises(e.InvalidRequestError, match="terminating push"):
        rig.push()


def test_a_push_under_an_old_subscription_id_is_refused(rig: Rig) -> None:
    """The client may ask for the new one without waiting."""
    old = subscription_id(*rig.wanted, ID)
    rig.configs = configs(all={"metrics": "*", "interval_ms": "2000"})
    with pytest.raises(e.UnknownSubscriptionIdError):
        rig.push(subscription=old)
    response = rig.get()
    assert response.interval_ms == 2_000
    rig.push(subscription=response.subscription_id)
    assert rig.telemetry.status()["unknown-subscription-request"] == 1


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"compression_type": 9}, e.UnsupportedCompressionTypeError),
        ({"data": bytes(MAX_BYTES + 1)}, e.TelemetryTooLargeError),
        (
            {"data": compress(Compression.ZSTD, bytes(1 << 20)), "compression_type": 4},
            e.TelemetryTooLargeError,
        ),
        (
            {"data": compress(Compression.GZIP, bytes(1 << 20)), "compression_type": 1},
            e.TelemetryTooLargeError,
        ),
        ({"data": b"\xff" * 9, "compression_type": 3}, e.InvalidRecordError),
        ({"data": b"\xff" * 9}, e.InvalidRecordError),
    ],
)
def test_invalid_pushes_are_refused(rig: Rig, more: dict[str, Any], error: type[e.KafkaError]) -> None:
    """Also one that is small only while compressed; nothing of it is stored."""
    with pytest.raises(error):
        rig.push(**more)
    assert rig.telemetry.status()["metric-count"] == 0
    if error is e.UnsupportedCompressionTypeError:
        rig.get()  # as it may after an error


@pytest.mark.parametrize("compression", list(Compression))
def test_all_compression_types_are_decoded(rig: Rig, compression: Compression) -> None:
    """Delta sums are added up, gauges replace their value."""
    for number in (1, 2):
        rig.push(compress(compression, payload(a=number, sum_b=number)), compression_type=int(compression))
        rig.now_ms += 1_000
    assert rig.shown["metrics"] == {'a{topic="t"}': 2.0, "sum_b": 3.0}


def test_reserved_client_instance_ids_are_refused(rig: Rig) -> None:
    """They mean that a client has none."""
    body = SimpleNamespace(subscription_id=1, terminating=False, compression_type=0, metrics=b"")
    with pytest.raises(e.InvalidRequestError):
        rig.telemetry.push({}, CLIENT._replace(instance_id=bytes(16)), 1, body, 1, 1)


def test_clients_are_dropped_with_their_connection_or_by_time(rig: Rig) -> None:
    """After three intervals, at least a minute; their metrics with them."""
    rig.push(payload(a=1))
    rig.now_ms += 59_999
    rig.telemetry.expire(rig.now_ms)
    assert len(rig.telemetry) == 1
    rig.telemetry.expire(rig.now_ms + 1)
    assert rig.telemetry.status()["instance-count"] == rig.telemetry.status()["metric-count"] == 0
    rig.get()
    rig.get(CLIENT._replace(instance_id=b"x" * 16), session=2)
    rig.now_ms += 1_000
    rig.get(session=3)  # the client reconnected: the end of its first connection does not count
    rig.telemetry.connection_gone(1)
    assert len(rig.telemetry) == 2
    rig.telemetry.connection_gone(3)
    rig.telemetry.connection_gone(2)
    assert len(rig.telemetry) == 0


def test_memory_is_bounded() -> None:
    """One client per connection, a number of clients, and metrics of each and of all."""
    rig = Rig(all={"metrics": "*", "interval_ms": "1000"})
    for number in range(20):
        rig.get(CLIENT._replace(instance_id=number.to_bytes(16, "big")), session=1)
    assert len(rig.telemetry) == 1
    for number in range(100, MAX_CLIENTS + 105):
        rig.get(CLIENT._replace(instance_id=number.to_bytes(16, "big")), session=number)
    assert len(rig.telemetry) == MAX_CLIENTS
    rig.get()
    rig.push(payload(**{f"m{number}": number for number in range(MAX_POINTS_PER_CLIENT + 3)}))
    facts = rig.telemetry.status()
    assert (facts["metric-count"], facts["dropped-metrics"]) == (MAX_POINTS_PER_CLIENT, 3)


def test_long_names_and_empty_metrics_are_left_out() -> None:
    """The points of a push are bounded, too."""
    assert points_of(payload(**{"n" * MAX_NAME: 1.0, "ok": 2.0, "bad": float("nan")})) == [
        ('ok{topic="t"}', 2.0, False)
    ]
    made = MetricsData()
    histogram = made.resource_metrics.add().scope_metrics.add().metrics.add(name="h").histogram
    histogram.aggregation_temporality = 2
    histogram.data_points.add(count=3, sum=1.5)
    assert points_of(made.SerializeToString()) == [("h.count", 3.0, False), ("h.sum", 1.5, False)]


@given(st.binary(max_size=300))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    """Without another exception."""
    with contextlib.suppress(e.InvalidRecordError):
        points_of(data)
