"""Values for Ray's pipeline, whose counters take increments."""

from types import SimpleNamespace
from typing import Any

from headrace.runtime.telemetry import node_table as table
from headrace.runtime.telemetry.histogram import Histogram
from headrace.runtime.telemetry.samples import Samples
from headrace.runtime.telemetry_config import TelemetryConfig
from headrace.services.telemetry.ray_io import Instruments, RayPush


class FakeMetric:
    """Of Ray: checks tags as Ray does."""

    def __init__(self, name: str, description: str, tag_keys: tuple[str, ...]) -> None:
        self.name, self.tag_keys = name, tag_keys
        self.values: dict[tuple[str, ...], float] = {}

    def inc(self, value: float, tags: dict[str, str]) -> None:
        assert value > 0
        self._add(value, tags)

    def set(self, value: float, tags: dict[str, str]) -> None:
        self.values.pop(tuple(tags.values()), None)
        self._add(value, tags)

    def _add(self, value: float, tags: dict[str, str]) -> None:
        assert set(tags) == set(self.tag_keys)
        key = tuple(tags.values())
        self.values[key] = self.values.get(key, 0) + value


def test_counters_pass_their_increments() -> None:
    """Gauges their values; histograms count and sum; a series that is gone starts at zero."""
    made: dict[str, FakeMetric] = {}

    def new(name: str, **facts: Any) -> FakeMetric:
        made[name] = FakeMetric(name, **facts)
        return made[name]

    server: Any = SimpleNamespace(measured=SimpleNamespace(role="node", server_id=3))
    push = RayPush(TelemetryConfig(), server, lambda: Instruments(new, new))

    def values(sent: int, times: Histogram) -> Samples:
        samples = Samples()
        samples.set(table.MESSAGES_IN, 99)
        samples.set(table.MESSAGES_IN, sent, "t")
        samples.set(table.LEADER_COUNT, sent)
        samples.observe(table.TOTAL_TIME, times, "Produce")
        return samples

    times = Histogram()
    times.record(2.0)
    push.push(values(5, times))
    times.record(4.0)
    push.push(values(7, times))
    counted = made["kafka_server_brokertopicmetrics_messagesin"]
    assert counted.values == {("node", "3", "t"): 7}
    assert made["kafka_server_replicamanager_leadercount"].values == {("node", "3"): 7}
    assert made["kafka_network_requestmetrics_totaltimems_count"].values == {("node", "3", "Produce"): 2}
    assert made["kafka_network_requestmetrics_totaltimems_sum"].values == {("node", "3", "Produce"): 6}
    push.push(Samples())
    push.push(values(2, times))
    assert counted.values == {("node", "3", "t"): 9}
