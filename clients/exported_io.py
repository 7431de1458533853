"""The metrics of an application's clients, stream instances and pipelines, as its exporters take them.

They are read when an exporter asks; nothing is done per record. Closed clients are forgotten.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from ..protocol.errors import ClosedError
from ..runtime.telemetry import client_table as table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..runtime.telemetry.samples import Samples
    from .operation_times import OperationTimes

PRODUCER, CONSUMER, OTHER = "producer", "consumer", "other"


class ClientName(NamedTuple):
    """The attributes that distinguish the series of a client."""

    client_id: str
    group: str


class ExportedSources:
    """Producers, consumers, stream instances and pipelines whose metrics are exported together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kinds: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def add(self, sources: Iterable[Any]) -> list[tuple[Any, str]]:
        """Those that are new, with their kinds. Errors: TypeError for an object without metrics, before any
        is added."""
        kinds = [(source, kind_of(source)) for source in sources]
        with self._lock:
            new = [(source, kind) for source, kind in kinds if source not in self._kinds]
            self._kinds.update(new)
        return new

    def forget_closed(self) -> bool:
        """Forget clients that are closed; whether there were any."""
        with self._lock:
            closed = [source for source, kind in self._kinds.items() if kind != OTHER and source._is_closed]  # noqa: SLF001 -- of the clients of this package
            for source in closed:
                del self._kinds[source]
            return bool(closed)

    def measure(self, samples: Samples) -> None:
        """Add the present values of all that are open."""
        self.forget_closed()
        with self._lock:
            known = list(self._kinds.items())
        for source, kind in known:
            if kind == OTHER:
                source.measure(samples)
                continue
            with contextlib.suppress(ClosedError):  # closed meanwhile
                _measure_client(source, kind, samples)


def kind_of(source: Any) -> str:
    """Errors: TypeError for an object without metrics."""
    if hasattr(source, "measure"):
        return OTHER
    if hasattr(source, "metrics"):
        if hasattr(source, "send"):
            return PRODUCER
        if hasattr(source, "poll"):
            return CONSUMER
    raise TypeError(
        f"metrics are those of producers, consumers, stream instances and pipelines, not of"
        f" {type(source).__name__}"
    )


def name_of(client: Any) -> ClientName:
    """The name of a producer or a consumer."""
    client_id = str(getattr(getattr(client._io, "hub", None), "client_id", ""))  # noqa: SLF001 -- as above
    return ClientName(client_id, getattr(client.config, "group", None) or "")


def operations_of(client: Any) -> OperationTimes:
    """The durations of the operations of a producer or a consumer."""
    times: OperationTimes = client._engine.operations  # noqa: SLF001 -- as above
    return times


def _measure_client(client: Any, kind: str, samples: Samples) -> None:
    name = name_of(client)
    labels = name if kind == CONSUMER else name[:1]
    for key, value in client.metrics().items():
        where, _, behind = key.rpartition(".")
        if where:
            topic, _, number = where.rpartition("-")
            samples.set(table.PARTITION_METRICS[behind], value, *name, topic, number)
            continue
        for metrics in (table.PRODUCER_METRICS,) if kind == PRODUCER else _OF_CONSUMERS:
            if key in metrics:
                samples.set(metrics[key], value, *labels)
    for operation, times in operations_of(client).items():
        samples.observe(
            table.OPERATION_DURATION, times, *name, operation.name, operation.topic, operation.error
        )


_OF_CONSUMERS = (table.CONSUMER_METRICS, table.MEMBER_METRICS)
