"""The nodes and stores of a topology as they were added: what a task makes its processors from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import re

    from ..processing import ProcessorSupplier
    from ..records import RecordContext
    from .errors import Origin

TopicNameExtractor = Callable[[Any, Any, "RecordContext"], str]
"""Key, value and record context to the name of a topic."""

Partitioner = Callable[[str, Any, Any, int], "int | Collection[int] | None"]
"""Topic, key, value and number of partitions to a partition, several, none (empty), or the default (None)."""

OffsetReset = str | timedelta
"""Where a source without committed offset starts: "earliest", "latest", "none", or that long ago."""


@dataclass(frozen=True, slots=True)
class WindowedKeyPartitioner:
    """Chooses the partition by the bytes of the key without its window, as the default partitioner would.

    `inner`: the serde of the key alone. Source: WindowedStreamPartitioner.
    """

    inner: Any


class TimestampExtractor(Protocol):
    """Gives records their timestamps. A task drops records with negative timestamps."""

    def extract(self, record: Any, partition_time: int, wall_ms: int) -> int:
        """The timestamp of a consumer record. `partition_time`: the highest one of its partition, or -1."""


class StoreBuilder(Protocol):
    """Makes a store for each task. A dataclass: `dataclasses.replace` gives one without logging or cache."""

    @property
    def name(self) -> str: ...

    @property
    def is_logged(self) -> bool: ...

    @property
    def is_cached(self) -> bool: ...

    @property
    def changelog_config(self) -> Mapping[str, str]: ...

    @property
    def is_windowed(self) -> bool:
        """Whether it is a window or session store."""

    @property
    def retention_ms(self) -> int:
        """Of a window or session store; 0 for others."""

    @property
    def history_retention_ms(self) -> int:
        """Of a versioned store; 0 for others."""

    def build(self) -> Any: ...


@dataclass(slots=True)
class SourceSpec:
    """A source node. `topics` is empty where `pattern` is set. A serde that is None is the application's."""

    name: str
    topics: tuple[str, ...]
    origin: Origin
    pattern: re.Pattern[str] | None = None
    key: Any = None
    value: Any = None
    timestamp: TimestampExtractor | None = None
    offset_reset: OffsetReset | None = None
    parents: tuple[str, ...] = ()


@dataclass(slots=True)
class ProcessorSpec:
    """A processor node. `stores` are the names of its connected stores in order of connection."""

    name: str
    parents: tuple[str, ...]
    supplier: ProcessorSupplier
    origin: Origin
    stores: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SinkSpec:
    """A sink node. A serde that is None is the application's."""

    name: str
    parents: tuple[str, ...]
    topic: str | TopicNameExtractor
    origin: Origin
    key: Any = None
    value: Any = None
    partitioner: Partitioner | WindowedKeyPartitioner | None = None


NodeSpec = SourceSpec | ProcessorSpec | SinkSpec


@dataclass(slots=True)
class StoreEntry:
    """A store of the topology. `builder` may be changed from `added` by disabled logging or caching."""

    added: StoreBuilder
    builder: StoreBuilder
    processors: list[str] = field(default_factory=list)


@dataclass(slots=True)
class CopartitionGroup:
    """Source nodes whose topics need equal numbers of partitions, and the line that requires it."""

    sources: set[str]
    origin: Origin


@dataclass(frozen=True, slots=True)
class Reprocess:
    """The source and processor that rebuild a global store from its topic."""

    source: SourceSpec
    processor: ProcessorSpec
