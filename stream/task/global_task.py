"""Keeps the global stores of a worker up to date from their topics. Source: GlobalStateUpdateTask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ProcessingError, StreamsError, TaskMigratedError, TaskRetryError
from ..records import TaskId
from ..state.engines import StateStoreError
from ..topology.serdes import resolve
from .context import TaskContext
from .failures import cause_of
from .handlers import Decision, ErrorContext
from .nodes import Nodes
from .record_queue import loader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...protocol.model import TopicPartition
    from ..processing import Forward
    from ..topology.sub_topology import SubTopology
    from .record_queue import InputRecord
    from .settings import TaskSettings

GLOBAL_TASK = TaskId(-1, -1)


class GlobalTask:
    """Records of global topics are processed at once, in the order in which they are read."""

    def __init__(
        self,
        application_id: str,
        topology: SubTopology,
        config: TaskSettings,
        *,
        cache: Any,
        open_engine: Callable[[str], Any],
        wall_ms: int,
    ) -> None:
        self.topology = topology
        self.config = config
        self.context = TaskContext(
            application_id, GLOBAL_TASK, config, topology.changelogs, cache, open_engine
        )
        self.context.wall_ms = wall_ms
        self.context.stores = {builder.name: builder.build() for builder in topology.global_stores}
        self.context.stream_time = self._no_stream_time
        self.offsets: dict[TopicPartition, int] = {}
        self._handler = config.deserialization_handler
        self._readers: dict[str, tuple[str, Callable[..., Any], Callable[..., Any], Forward]] = {}

    @staticmethod
    def _no_stream_time() -> int:
        raise StreamsError("a global store has no stream time")

    @property
    def stores(self) -> Mapping[str, Any]:
        return self.context.stores

    def initialize(self) -> None:
        """Open the stores and initialize the processors."""
        for store in self.context.stores.values():
            store.init(self.context)
        handler = None
        if self.config.handles_global_failures:
            handler = self.config.processing_handler
        nodes = self._nodes = Nodes(self.topology, self.context, None, handler)
        defaults = {"key": self.config.key_serde, "value": self.config.value_serde}
        for topic, source in self.topology.sources.items():
            self._readers[topic] = (
                source.name,
                loader(resolve(source.key, "key", **defaults), "key"),
                loader(resolve(source.value, "value", **defaults), "value"),
                nodes.by_name[source.name].process,
            )

    def update(self, partition: TopicPartition, raw: InputRecord, wall_ms: int) -> None:
        """Process one record of a global topic. Errors: ProcessingError for those of a processor."""
        self.context.wall_ms = wall_ms
        name, loads_key, loads_value, process = self._readers[raw.topic]
        self.offsets[partition] = raw.offset + 1
        try:
            key = None if raw.key is None else loads_key(raw, raw.key)
            value = None if raw.value is None else loads_value(raw, raw.value)
        except Exception as error:  # noqa: BLE001  # of the user's serde; the handler decides
            self._not_read(name, raw, error)
            return
        current = self.context.current
        current.start(raw, raw.timestamp)
        try:
            process(key, value, raw.timestamp, raw.headers)
        except (TaskMigratedError, TaskRetryError, StateStoreError):
            raise
        except Exception as error:  # noqa: BLE001  # of the user's function; the cause is kept
            processor = self._nodes.name_of_failed(error, name)
            raise ProcessingError(
                str(GLOBAL_TASK), processor, raw.topic, raw.partition, raw.offset
            ) from cause_of(error)
        finally:
            current.finish()

    def _not_read(self, source: str, raw: InputRecord, error: Exception) -> None:
        where = ErrorContext(
            raw.topic, raw.partition, raw.offset, raw.headers, source, GLOBAL_TASK, raw.timestamp,
            raw.key, raw.value,
        )  # fmt: skip
        if self._handler.handle(where, raw, error).decision is not Decision.CONTINUE:
            raise StreamsError(
                f"a global store cannot read offset {raw.offset} of {raw.topic}-{raw.partition}:"
                f" {type(error).__name__}: {error}"
            ) from error
        self.context.dropped("not readable")

    def flush(self) -> None:
        """Make the stores durable, with the offsets to go on from."""
        for store in self.context.stores.values():
            store.flush()
            store.commit(None)

    def close(self) -> None:
        self.flush()
        for store in self.context.stores.values():
            store.close()
