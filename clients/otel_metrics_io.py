"""The metrics of clients for OpenTelemetry: what `metrics()` returns, read when the meter provider of the
application collects. Nothing is done per record.

Names are those of the semantic conventions for messaging where they have one; the others are Kafka's, as
OpenTelemetry's instrumentation for Java makes them: `record-error-total` of a producer is
`kafka.producer.record_error_total`.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..runtime.extras import missing_extra
from ..runtime.tracing.names import POLL, SCOPE, SEND

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

    from ..runtime.tracing.names import AttributeValue, Names

_SENT, _CONSUMED = "messaging.client.sent.messages", "messaging.client.consumed.messages"
_BY_CONVENTION = {
    ("producer", "record-send-total"): (_SENT, "{message}"),
    ("consumer", "records-consumed-total"): (_CONSUMED, "{message}"),
}
_PER_PARTITION = ("records-lag", "records-lead")  # of consumers, while they have partitions
_FRESH_S = 0.1  # one collection reads a client once
_exports: WeakKeyDictionary[Any, _Export] = WeakKeyDictionary()
_lock = threading.Lock()


def export_metrics(*clients: Any, meter_provider: MeterProvider | None = None) -> None:
    """Export the metrics of these producers and consumers, until they are closed, through the meter provider,
    by default that of the process. A second call with a client changes nothing.

    Errors: ImportError without OpenTelemetry; TypeError for another object.
    """
    try:
        from opentelemetry import metrics

        from ..runtime.tracing.sdk_io import names
    except ImportError as error:
        raise missing_extra(error, "export_metrics", "otel") from error
    kinds = [_kind_of(client) for client in clients]
    provider = metrics.get_meter_provider() if meter_provider is None else meter_provider
    with _lock:
        export = _exports.get(provider)
        if export is None:
            export = _exports[provider] = _Export(provider.get_meter(SCOPE), names())
        for client, kind in zip(clients, kinds, strict=True):
            export.add(client, kind)


def _kind_of(client: Any) -> str:
    if hasattr(client, "metrics"):
        if hasattr(client, "send"):
            return "producer"
        if hasattr(client, "poll"):
            return "consumer"
    raise TypeError(f"export_metrics takes producers and consumers, not {type(client).__name__}")


class _Exported:
    """What is known of one client."""

    def __init__(self, kind: str, attributes: Mapping[str, AttributeValue]) -> None:
        self.kind, self.attributes = kind, attributes
        self.values: Mapping[str, float] = {}
        self.read_at_s = 0.0


class _Export:
    """The instruments of one meter provider, and the clients that they read."""

    def __init__(self, meter: Meter, names: Names) -> None:
        self._meter, self._names = meter, names
        self._clients: WeakKeyDictionary[Any, _Exported] = WeakKeyDictionary()
        self._made: set[tuple[str, str]] = set()

    def add(self, client: Any, kind: str) -> None:
        if client in self._clients:
            return
        operation = SEND if kind == "producer" else POLL
        config = client.config
        facts = {"client_id": _client_id(client), "group": getattr(config, "group", None)}
        attributes = self._names.of_operation(operation, "", **facts)
        self._clients[client] = _Exported(kind, attributes)
        found = [name for name in client.metrics() if not name.rpartition(".")[0]]
        for name in (*found, *(_PER_PARTITION if kind == "consumer" else ())):
            self._make(kind, name)

    def _make(self, kind: str, name: str) -> None:
        if (kind, name) in self._made:
            return
        self._made.add((kind, name))
        default = f"kafka.{kind}.{name.replace('-', '_')}", ""
        shown, unit = _BY_CONVENTION.get((kind, name), default)
        read = partial(self._observe, kind, name)
        is_counter = name.endswith("-total") and not name.startswith("buffer")
        make = self._meter.create_observable_counter if is_counter else self._meter.create_observable_gauge
        make(shown, callbacks=[read], unit=unit, description=f"{name} of Kafka's {kind}s.")

    def _observe(self, kind: str, name: str, _options: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        for values, attributes in self._read(kind):
            if name in values:
                yield Observation(values[name], attributes)
            elif name in _PER_PARTITION:
                for key, value in values.items():
                    where, _, behind = key.rpartition(".")
                    if behind == name:
                        topic, _, number = where.rpartition("-")
                        place = self._names.attributes({"destination": topic, "partition": number})
                        yield Observation(value, {**attributes, **place})

    def _read(self, kind: str) -> Iterator[tuple[Mapping[str, float], Mapping[str, AttributeValue]]]:
        """The values of the clients of a kind; of none that is closed."""
        now_s = time.monotonic()
        for client, known in list(self._clients.items()):
            if known.kind != kind:
                continue
            if client._is_closed:  # noqa: SLF001 -- of the clients of this package
                self._clients.pop(client, None)
                continue
            if now_s - known.read_at_s >= _FRESH_S:
                known.values, known.read_at_s = client.metrics(), now_s
            yield known.values, known.attributes


def _client_id(client: Any) -> str:
    io = getattr(client, "_io", None)
    return str(getattr(getattr(io, "hub", None), "client_id", ""))
