"""Measures the requests of both planes by api: how long the handler's turn took, and how long the response.

Pure: the clock is given. Every request passes here: two or three values are recorded, and nothing else is
done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.messages import registry
from ...runtime.telemetry import node_table as table
from ...runtime.telemetry.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...protocol.errors import KafkaError
    from ...runtime.telemetry.samples import Samples

_FETCH = registry.FETCH.key
_FOLLOWER = -1  # in place of the api key of a follower's Fetch
_NAMES = {api.key: api.name for api in registry.ALL_APIS} | {
    _FETCH: "FetchConsumer",
    _FOLLOWER: "FetchFollower",
}
_MS = 1000  # of the clock's seconds


class _ApiTimes:
    """Durations, requests and errors."""

    __slots__ = ("errors", "local", "remote", "total")

    def __init__(self) -> None:
        self.total, self.local, self.remote = Histogram(), Histogram(), Histogram()
        self.errors: dict[str, int] = {}  # Bound: errors of the protocol


class RequestMeter:
    """`begin`, then `turned` at the end of the handler's turn; one of the others at the response, before or
    after it."""

    __slots__ = ("_apis", "_clock_s")

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._apis: dict[int, _ApiTimes] = {}  # Bound: apis

    def begin(self, request: Any) -> None:
        """The request's handler is called."""
        request.begun_s = self._clock_s()

    def turned(self, request: Any) -> None:
        """The handler has returned."""
        request.turn_s = turn_s = self._clock_s() - request.begun_s
        self._of(request).local.record(turn_s * _MS)

    def replied(self, request: Any) -> None:
        """The response is sent, or the request needs none."""
        begun_s = request.begun_s
        if begun_s < 0:
            return  # refused before its handler was called, or the authorized part of another request
        total_s, turn_s = self._clock_s() - begun_s, request.turn_s
        times = self._of(request)
        times.total.record(total_s * _MS)
        if turn_s >= 0:  # `write` counts the others, which did not wait
            times.remote.record((total_s - turn_s) * _MS)

    def refused(self, request: Any, error: KafkaError) -> None:
        """The response is an error."""
        if request.begun_s < 0:
            return
        errors, name = self._of(request).errors, type(error).__name__.removesuffix("Error")
        errors[name] = errors.get(name, 0) + 1
        self.replied(request)

    def write(self, samples: Samples) -> None:
        """The values of the apis that were used."""
        for key, times in self._apis.items():
            name = _NAMES[key]
            samples.set(table.REQUESTS, times.local.count, name)
            samples.observe(table.TOTAL_TIME, times.total, name)
            samples.observe(table.LOCAL_TIME, times.local, name)
            samples.observe(table.REMOTE_TIME, _with_zeros(times.remote, times.total.count), name)
            for error, count in times.errors.items():
                samples.set(table.REQUEST_ERRORS, count, name, error)

    def _of(self, request: Any) -> _ApiTimes:
        key = request.api.key
        if key == _FETCH and request.body.replica_id >= 0:
            key = _FOLLOWER
        found = self._apis.get(key)
        if found is None:
            found = self._apis[key] = _ApiTimes()
        return found


def write_immediate(samples: Samples, sent: Mapping[int, int]) -> None:
    """Add requests that were answered without a handler to the values of `RequestMeter.write`: their counts
    by api key. Their times are 0."""
    for key, count in sent.items():
        if not count:
            continue
        name = _NAMES[key]
        samples.add(table.REQUESTS, count, name)
        for metric in (table.TOTAL_TIME, table.LOCAL_TIME, table.REMOTE_TIME):
            times = samples.get(metric, name)
            before = times if isinstance(times, Histogram) else Histogram()
            samples.observe(metric, _with_zeros(before, before.count + count), name)


def _with_zeros(times: Histogram, count: int) -> Histogram:
    """`times` with as many zeros as `count` lacks: responses that were sent within their turn."""
    made = times.copy()
    missing = max(count - made.count, 0)
    made.buckets[0] += missing
    made.count += missing
    return made
