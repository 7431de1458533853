"""Times of requests by api."""

from types import SimpleNamespace
from typing import Any

from headrace.protocol.errors import NotLeaderOrFollowerError
from headrace.protocol.messages import registry
from headrace.runtime.telemetry import node_table as table
from headrace.runtime.telemetry.histogram import Histogram
from headrace.runtime.telemetry.metric import Metric
from headrace.runtime.telemetry.samples import Samples
from headrace.storage_node.edge.request_meter import RequestMeter


class Rig:
    """A meter with a clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 10.0
        self.meter = RequestMeter(lambda: self.now_s)

    def request(self, api: Any, **body: Any) -> Any:
        made = SimpleNamespace(api=api, body=SimpleNamespace(**body), begun_s=-1.0, turn_s=-1.0)
        self.meter.begin(made)
        return made

    def times(self, metric: Metric, name: str) -> tuple[int, float]:
        """How many, and their sum in ms."""
        samples = Samples()
        self.meter.write(samples)
        found = samples.get(metric, name)
        assert isinstance(found, Histogram)
        return found.count, round(found.total, 6)


def test_a_response_within_the_turn_has_no_remote_time() -> None:
    rig = Rig()
    request = rig.request(registry.PRODUCE)
    rig.now_s += 0.002
    rig.meter.replied(request)
    rig.now_s += 0.001
    rig.meter.turned(request)
    assert rig.times(table.TOTAL_TIME, "Produce") == (1, 2)
    assert rig.times(table.LOCAL_TIME, "Produce") == (1, 3)
    assert rig.times(table.REMOTE_TIME, "Produce") == (1, 0)


def test_a_wait_behind_the_turn_is_remote_time() -> None:
    """As in purgatory; consumers and followers are distinguished."""
    rig = Rig()
    consumer, follower = rig.request(registry.FETCH, replica_id=-1), rig.request(registry.FETCH, replica_id=2)
    for request in (consumer, follower):
        rig.meter.turned(request)
    rig.now_s += 0.5
    rig.meter.replied(consumer)
    assert rig.times(table.TOTAL_TIME, "FetchConsumer") == (1, 500)
    assert rig.times(table.REMOTE_TIME, "FetchConsumer") == (1, 500)
    assert rig.times(table.TOTAL_TIME, "FetchFollower") == (0, 0)


def test_errors_are_counted_by_name() -> None:
    """A request whose handler was never called is not measured."""
    rig = Rig()
    for _ in range(2):
        refused = rig.request(registry.PRODUCE)
        rig.meter.refused(refused, NotLeaderOrFollowerError())
        rig.meter.turned(refused)
    never = SimpleNamespace(api=registry.FETCH, body=None, begun_s=-1.0, turn_s=-1.0)
    rig.meter.refused(never, NotLeaderOrFollowerError())
    rig.meter.replied(never)
    samples = Samples()
    rig.meter.write(samples)
    samples.check()
    assert samples.get(table.REQUEST_ERRORS, "Produce", "NotLeaderOrFollower") == 2
    assert samples.get(table.REQUESTS, "Produce") == 2
    assert samples.get(table.REQUESTS, "FetchConsumer") is None
