"""Compiled builds of hot modules, from their unchanged sources. See docs/adr/0026.

`make codec` compiles these modules with Cython next to their sources, under names that include a digest of
the source, which Python alone would not import. Without a build of the current source (it was edited, there
is no compiler, another Python) the module runs as Python: the same behaviour, slower.
"""

from __future__ import annotations

import sys
from _blake2 import blake2b
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# Modules that every batch of a producer, every fetch or every record of a task passes, where interpreter time
# dominates. Processors of `stream` are not among them, but for loops that they call: a failed one is found by
# its frame.
HOT_MODULES = frozenset(
    f"headrace.{name}"
    for name in (
        "clients.serdes",
        "protocol.records.header",
        "runtime.clock_io",
        "runtime.effect_performer",
        "runtime.purgatory",
        "services.kafka_listener.calls",
        "services.kafka_listener.connection_io",
        "services.kafka_listener.entities",
        "services.kafka_listener.fetch_sessions",
        "services.kafka_listener.framing",
        "services.kafka_listener.hot_layouts",
        "services.kafka_listener.hot_requests",
        "services.kafka_listener.listener_io",
        "services.kafka_listener.memory",
        "services.kafka_listener.output_io",
        "services.kafka_listener.reading_io",
        "services.kafka_listener.ready",
        "services.kafka_listener.records",
        "services.kafka_listener.skimming",
        "services.kafka_listener.sockets_io",
        "services.kafka_listener.throttling",
        "services.kafka_listener.topics",
        "runtime.telemetry.histogram",
        "storage_node.counters",
        "storage_node.edge.request_meter",
        "storage_node.edge.gateway",
        "storage_node.edge.gateway_io",
        "storage_node.embedded.coordinator_host",
        "storage_node.log.append_rules",
        "storage_node.log.batch_starts",
        "runtime.files.files_io",
        "storage_node.log.guarded_files",
        "storage_node.log.leader_epochs",
        "storage_node.log.lending",
        "storage_node.log.log",
        "storage_node.log.log_reader",
        "storage_node.log.offset_index",
        "storage_node.log.producer_state",
        "storage_node.log.producer_state_manager",
        "storage_node.log.producer_states",
        "storage_node.log.roll_rules",
        "storage_node.log.segment",
        "storage_node.log.tail_cache",
        "storage_node.log.time_index",
        "storage_node.log.verification",
        "storage_node.node",
        "storage_node.node_handlers",
        "storage_node.shell.node_effects_io",
        "storage_node.shell.node_io",
        "storage_node.edge.node_quotas",
        "storage_node.replica.appending",
        "storage_node.replica.fetch",
        "storage_node.replica.flush_scheduler",
        "storage_node.replica.isr_manager",
        "storage_node.replica.partition",
        "storage_node.replica.partition_table",
        "storage_node.replica.produce",
        "storage_node.replica.reading",
        "storage_node.replica.step_output",
        "stream.processors.aggregate_runs",
        "stream.processors.table_lookups",
        "stream.state.deferred",
        "stream.state.flushing",
        "stream.state.formats.buffers",
        "stream.state.formats.timestamped",
        "stream.state.formats.windows",
        "stream.state.key_schemas",
        "stream.state.key_value_bytes",
        "stream.state.key_value_store",
        "stream.state.overlay",
        "stream.state.rocksdict_io",
        "stream.state.segmented_cache",
        "stream.state.segments",
        "stream.state.serdes",
        "stream.state.thread_cache",
        "stream.state.typed",
        "stream.state.window_bytes",
        "stream.state.window_store",
        "stream.task.collector",
        "stream.task.context",
        "stream.task.current_record",
        "stream.task.partition_group",
        "stream.task.record_queue",
        "stream.task.run_rows",
        "stream.task.runs",
        "stream.worker.output_io",
        "stream.worker.partition_runs",
    )
)
_ROOT = Path(__file__).parent.parent


def source_of(name: str, root: Path = _ROOT) -> Path:
    """The source file of module `name` of the package at `root`."""
    return root.joinpath(*name.split(".")[1:]).with_suffix(".py")


def built_of(source: Path) -> Path:
    """The path of the compiled build of the current source for this Python; it may not exist."""
    digest = blake2b(source.read_bytes(), digest_size=6).hexdigest()
    return source.with_name(f"{source.stem}.{digest}{EXTENSION_SUFFIXES[0]}")


class CompiledFinder:
    """A MetaPathFinder that loads compiled builds of modules."""

    def __init__(self, names: Iterable[str], root: Path = _ROOT) -> None:
        self._names, self._root = frozenset(names), root

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None for modules without a build: other finders load their source."""
        if fullname not in self._names:
            return None
        try:
            built = built_of(source_of(fullname, self._root))
        except OSError:  # installed without sources, or deleted
            return None
        if not built.exists():
            return None
        return spec_from_file_location(fullname, built, loader=ExtensionFileLoader(fullname, str(built)))


def prefer_compiled(choice: str | None) -> None:
    """Load compiled builds from now on, unless `choice` is "python"."""
    if choice != "python":
        sys.meta_path.insert(0, CompiledFinder(HOT_MODULES))
