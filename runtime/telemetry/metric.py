"""The declaration of one metric: Kafka's identity, and the names that exporters derive from it. Pure.

The name for Prometheus is the one that users of its JMX exporter have with that exporter's example rules for
Kafka: `kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions` is
`kafka_server_replicamanager_underreplicatedpartitions`, a meter `MessagesInPerSec` is `messagesin_total`, and
`IdlePercent` is `idle_percent`. Names that Kafka does not have are words with underscores. OpenTelemetry's
name is that of a semantic convention, or derived.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_]+")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
OWN_DOMAIN = "headrace"  # of metrics that Kafka does not have
# Endings of counters' names that the ending _total replaces.
_METERS = re.compile(r"(PerSec|-total|-count|_total)\Z")


class Kind(Enum):
    """How the value behaves."""

    COUNTER = "counter"  # only increases, from 0 at the start of the server
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One metric; it is a key of mappings by its identity, since it is declared once.

    Values have all `labels`. With `has_total` there is also one without labels: what Kafka counts per topic
    it counts in total, too. `unit` is a UCUM code, as OpenTelemetry wants it.
    """

    domain: str
    type: str
    name: str
    kind: Kind
    doc: str
    labels: tuple[str, ...] = ()
    unit: str = "1"
    has_total: bool = False
    prometheus_name: str = ""  # if it is not the derived one
    otel_name: str = ""  # of a semantic convention
    attributes: tuple[str, ...] = ()  # names of the labels in OpenTelemetry, if they are others
    constants: tuple[tuple[str, str], ...] = ()  # further attributes

    def __repr__(self) -> str:
        return f"Metric({self.mbean})"

    @property
    def mbean(self) -> str:
        """The JMX name in Kafka; those of headrace alone have the domain `headrace`."""
        tags = "".join(f",{label}=*" for label in self.labels)
        return f"{self.domain}:type={self.type},name={self.name}{tags}"

    @property
    def prometheus(self) -> str:
        """The name of the family, without the ending of a sample (`_bucket`, `_sum`, `_count`)."""
        if self.prometheus_name:
            return self.prometheus_name
        name, ending = self.name, ""
        if self.kind is Kind.COUNTER:
            name, ending = _METERS.sub("", name), "_total"
        elif name.endswith("Percent") and "-" not in name:
            name, ending = name.removesuffix("Percent"), "_percent"
        if self.domain == OWN_DOMAIN:
            return "_".join(filter(None, (OWN_DOMAIN, _snake(self.type), _snake(name)))) + ending
        return "_".join(_ILLEGAL.sub("_", part).lower() for part in (self.domain, self.type, name)) + ending

    @property
    def ms_per_unit(self) -> int:
        """Of a histogram, whose values are kept in milliseconds."""
        return 1000 if self.unit == "s" else 1

    @property
    def otel(self) -> str:
        """The name for OpenTelemetry: words of each part separated by `_`, parts by dots."""
        if self.otel_name:
            return self.otel_name
        name = _METERS.sub("", self.name) if self.kind is Kind.COUNTER else self.name
        parts = (self.domain, self.type, name) if self.type else (self.domain, name)
        return ".".join(_snake(part) for part in parts)


def _snake(text: str) -> str:
    return ".".join(_ILLEGAL.sub("_", _WORD_START.sub("_", part)).lower() for part in text.split("."))


def counter(domain: str, kind: str, name: str, doc: str, **more: object) -> Metric:
    """Declare a counter; `kind` is the JMX type, `more` are fields of Metric."""
    return Metric(domain, kind, name, Kind.COUNTER, doc, **more)  # type: ignore[arg-type]


def gauge(domain: str, kind: str, name: str, doc: str, **more: object) -> Metric:
    """Declare a gauge."""
    return Metric(domain, kind, name, Kind.GAUGE, doc, **more)  # type: ignore[arg-type]


def histogram(domain: str, kind: str, name: str, doc: str, **more: object) -> Metric:
    """Declare a histogram."""
    return Metric(domain, kind, name, Kind.HISTOGRAM, doc, **more)  # type: ignore[arg-type]
