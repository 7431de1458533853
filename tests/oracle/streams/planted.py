"""Planted bugs: each breaks one rule of Kafka Streams in headrace.stream, and the oracle must find it.

A bug is a change of a function's text: most processors are functions within functions, which no attribute
reaches. A bug whose text is gone fails: the list follows the code. The cases of a bug are those whose pair
has one of its operators, and whose configuration has its key, from the first seed on.
"""

from __future__ import annotations
import __future__

import ast
import importlib
import itertools
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from headrace.runtime.compiled_io import source_of

from .cases import Case
from .generating import generate, pair_of
from .operators import OPERATORS

PROCESSORS = "headrace.stream.processors."
TASK = "headrace.stream.task."
STATE = "headrace.stream.state."
DSL = "headrace.stream.dsl."


class Planted(NamedTuple):
    """In function `where` (module:Class.function), `old` becomes `new`."""

    where: str
    old: str
    new: str
    operators: tuple[str, ...]
    config: str = ""

    def cases(self) -> Iterator[Case]:
        """The cases that may show the bug, without end."""
        seeds = (seed for seed in itertools.count(1) if set(pair_of(seed)) & set(self.operators))
        return (case for case in map(generate, seeds) if not self.config or self.config in case["config"])

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        """Replace the function. Errors: LookupError for a text that is not there."""
        module_name, _, path = self.where.partition(":")
        owner: Any = importlib.import_module(module_name)
        *classes, name = path.split(".")
        for each in classes:
            owner = getattr(owner, each)
        source = _source_of(module_name, path)
        if self.old not in source:
            raise LookupError(f"{self.where} has no {self.old!r}")
        made: dict[str, Any] = {}
        flags = __future__.annotations.compiler_flag
        names = vars(importlib.import_module(module_name))
        exec(compile(source.replace(self.old, self.new), self.where, "exec", flags), names, made)
        for holder in [owner] if classes else _importers(getattr(owner, name)):
            patch.setattr(holder, name, made[name])


def _importers(function: Any) -> list[Any]:
    """The modules of headrace in which a function has its own name: where it is defined and imported."""
    modules = [each for name, each in sys.modules.items() if name.startswith("headrace.")]
    return [each for each in modules if getattr(each, function.__name__, None) is function]


def _source_of(module: str, path: str) -> str:
    """The text of a function, also of a compiled module."""
    text = source_of(module).read_text()
    found: Any = ast.parse(text)
    for name in path.split("."):
        found = next(each for each in found.body if getattr(each, "name", "") == name)
    first = min([found.lineno, *(each.lineno for each in found.decorator_list)])
    return textwrap.dedent("\n".join(text.splitlines()[first - 1 : found.end_lineno]))


ALL = tuple(OPERATORS)
WINDOWS = ("tumbling", "hopping")
PROCESSES = ("process", "process_values", "topology")
STREAM_JOINS = ("stream_join", "stream_left_join", "stream_outer_join")
OUTER_JOINS = ("stream_left_join", "stream_outer_join")
AGGREGATES = ("count", "reduce", "aggregate")
TABLE_AGGREGATES = ("table_count", "table_reduce", "table_aggregate")
TABLE_JOINS = ("table_join", "table_left_join", "table_outer_join")
FOREIGN_JOINS = ("foreign_join", "foreign_left_join")
GRACE_JOINS = ("grace_join", "grace_left_join")
WINDOW_AGGREGATE = PROCESSORS + "window_aggregates:KStreamWindowAggregate.bind"
SLIDING = PROCESSORS + "sliding_window_aggregates:SlidingWindowProcessor."
SESSIONS = PROCESSORS + "session_aggregates:KStreamSessionWindowAggregate.bind"
JOIN = PROCESSORS + "stream_joins:StreamStreamJoinProcessor."
SELF_JOIN = PROCESSORS + "stream_joins:KStreamKStreamSelfJoin.bind"
TABLE_JOIN = PROCESSORS + "table_joins:KTableKTableJoin."
LOOKUP = PROCESSORS + "stream_table_joins:KStreamKTableJoinProcessor."
FOREIGN = PROCESSORS + "foreign_key_joins:"
SUPPRESS = PROCESSORS + "suppress:SuppressProcessor."

BUGS: dict[str, Planted] = {
    # windows
    "window_end_is_inside": Planted(
        DSL + "windows:TimeWindows.starts_for", "timestamp - size + advance", "timestamp - size", WINDOWS
    ),
    "window_closes_late": Planted(
        WINDOW_AGGREGATE, "start + size_ms <= close_time", "start + size_ms < close_time", WINDOWS
    ),
    "window_grace_is_ignored": Planted(
        WINDOW_AGGREGATE, "= observed[0] - grace_ms", "= observed[0]", WINDOWS
    ),
    "stream_time_goes_back": Planted(WINDOW_AGGREGATE, "if timestamp > observed[0]:", "if True:", WINDOWS),
    "window_keeps_the_last_timestamp": Planted(
        WINDOW_AGGREGATE, "if found_timestamp > timestamp:", "if False:", WINDOWS
    ),
    "sliding_window_is_too_long": Planted(
        SLIDING + "_process_late", "timestamp - 2 * length", "timestamp - length", ("sliding",)
    ),
    "sliding_window_behind_is_missed": Planted(
        SLIDING + "_process_late", "self._add_behind(previous)", "pass", ("sliding",)
    ),
    "session_gap_is_exclusive": Planted(
        SESSIONS, "timestamp - gap_ms,", "timestamp - gap_ms + 1,", ("session",)
    ),
    "session_merges_in_reverse": Planted(
        SESSIONS, "merge(key, aggregate, found)", "merge(key, found, aggregate)", ("session",)
    ),
    "merged_session_is_not_removed": Planted(SESSIONS, "remove(session)", "pass", ("session",)),
    # aggregates
    "null_value_is_aggregated": Planted(
        PROCESSORS + "aggregates:KStreamAggregate.bind",
        "if key is None or value is None:",
        "if key is None:",
        AGGREGATES,
    ),
    "aggregate_takes_the_last_timestamp": Planted(
        PROCESSORS + "aggregates:KStreamAggregate.bind",
        "if old_timestamp > timestamp:",
        "if False:",
        AGGREGATES,
    ),
    "subtractor_is_missed": Planted(
        PROCESSORS + "aggregates:KTableAggregate.bind",
        "new = remove(key, old_value, old)",
        "pass",
        TABLE_AGGREGATES,
    ),
    "reduce_forgets_the_old_value": Planted(
        PROCESSORS + "aggregates:KTableReduce.bind",
        "new = remove(old, old_value)",
        "new = old",
        ("table_reduce",),
    ),
    # tables
    "old_value_is_not_sent": Planted(
        PROCESSORS + "table_store:_change_forward",
        "with_old if send_old_values else without_old",
        "without_old",
        (*TABLE_AGGREGATES, *TABLE_JOINS),
    ),
    "filter_forwards_unseen_deletions": Planted(
        PROCESSORS + "tables:KTableFilter.bind",
        "skip_unseen = send_old_values and not self.use_versioned_semantics",
        "skip_unseen = False",
        ("table_filter", "table_filter_not"),
    ),
    "null_key_is_kept_in_a_table": Planted(
        PROCESSORS + "tables:KTableSource.bind",
        "if key is None:",
        "if False:",
        ("to_table", "table_filter", "to_stream"),
    ),
    # joins
    "join_takes_its_own_timestamp": Planted(
        JOIN + "process", "max(timestamp, other_timestamp)", "timestamp", STREAM_JOINS
    ),
    "join_windows_are_not_mirrored": Planted(
        JOIN + "__init__", "if not self._is_left:", "if False:", STREAM_JOINS
    ),
    "outer_join_emits_early": Planted(
        JOIN + "_emit_without_partner",
        "wait_ms >= time.stream_time",
        "wait_ms > time.stream_time",
        OUTER_JOINS,
    ),
    "outer_join_ignores_grace": Planted(
        JOIN + "__init__",
        "self._waits_ms = self._after_ms + windows.grace_ms",
        "self._waits_ms = self._after_ms",
        OUTER_JOINS,
    ),
    "self_join_orders_itself_last": Planted(
        SELF_JOIN, "if is_pending and other_timestamp > timestamp:", "if False:", ("self_join",)
    ),
    "stream_joins_a_null_value": Planted(
        LOOKUP + "process", "if value is None or (", "if (", ("stream_table_join", "stream_table_left_join")
    ),
    "grace_join_reads_the_latest_version": Planted(
        LOOKUP + "_row_of", "if self._is_versioned else", "if False else", GRACE_JOINS
    ),
    "table_join_takes_its_own_timestamp": Planted(
        TABLE_JOIN + "_bind", "if other_timestamp > timestamp:", "if False:", TABLE_JOINS
    ),
    "table_join_has_no_old_value": Planted(
        TABLE_JOIN + "_bind", "row(old, other) if send_old_values else None", "None", TABLE_JOINS
    ),
    "foreign_join_answers_changed_rows": Planted(
        FOREIGN + "ResponseJoinProcessorSupplier._bind",
        "answer.original_value_hash != current",
        "False",
        FOREIGN_JOINS,
    ),
    "foreign_join_keeps_registrations": Planted(
        FOREIGN + "SubscriptionReceiveProcessorSupplier.bind", "store.delete(data)", "pass", FOREIGN_JOINS
    ),
    # suppress
    "suppress_emits_early": Planted(
        SUPPRESS + "process",
        "self._stream_time - supplier.wait_ms",
        "self._stream_time - supplier.wait_ms + 1",
        ("suppress_time", "suppress_window"),
    ),
    "suppress_forwards_tombstones": Planted(
        SUPPRESS + "_emit", "record.value.new is None and", "False and", ("suppress_window",)
    ),
    # tasks, stores, names
    "headers_are_lost": Planted(
        PROCESSORS + "stateless:KStreamMapValues.bind",
        "mapper(value), timestamp, headers",
        "mapper(value), timestamp, ()",
        ("map_values",),
    ),
    "node_names_do_not_count": Planted(
        DSL + "names:Names.given_or",
        "generated = self.generated(prefix)",
        "generated = self.generated(prefix) if name is None else name",
        ALL,
    ),
    "names_are_not_required": Planted(
        DSL + "builder:Builder.topology",
        "self._requires_names and",
        "False and",
        ALL,
        "ensure.explicit.internal.resource.naming",
    ),
    "self_join_alone_is_not_optimized": Planted(
        DSL + "optimizations:optimize",
        "if SINGLE_STORE_SELF_JOIN in rewrites:",
        "if len(rewrites) > 1:",
        ("self_join",),
    ),
    "grace_exceeds_the_history": Planted(
        DSL + "graph:StreamTableJoinNode.write", "_ms > history:", "_ms > history + 100:", GRACE_JOINS
    ),
    "dead_letter_loses_its_record": Planted(
        TASK + "current_record:CurrentRecord.error_context",
        "self.raw_key, self.raw_value",
        "None, None",
        ALL,
        "errors.dead.letter.queue.topic.name",
    ),
    "handler_is_not_asked_about_punctuators": Planted(
        TASK + "task:Task._punctuate",
        "self._nodes.failed(schedule.node, None, error, self.config.processing_handler)",
        "raise ProcessorFailedError(schedule.node) from error",
        PROCESSES,
        "processing.exception.handler",
    ),
    "handler_is_not_asked_about_global_stores": Planted(
        TASK + "global_task:GlobalTask.initialize",
        "if self.config.handles_global_failures:",
        "if False:",
        ("global_store", "topology"),
        "processing.exception.handler.global.enabled",
    ),
    # the Processor API
    "punctuator_ignores_its_start": Planted(
        TASK + "context:TaskContext.schedule", "if first is None:", "if True:", PROCESSES
    ),
    "punctuator_reads_the_other_clock": Planted(
        TASK + "context:TaskContext.schedule", "on_wall = kind is", "on_wall = kind is not", PROCESSES
    ),
    "cancelled_punctuator_goes_on": Planted(
        TASK + "punctuation:Schedule.cancel", "self.is_cancelled = True", "pass", PROCESSES
    ),
    "late_punctuator_is_called_for_each_interval": Planted(
        TASK + "punctuation:PunctuationQueue.punctuate",
        "next_time(top.timestamp, schedule.interval_ms, now)",
        "top.timestamp + schedule.interval_ms",
        PROCESSES,
    ),
    "forward_to_a_child_goes_to_all": Planted(
        TASK + "context:NodeContext.forward_to", "self.forward_of(child)", "self.forward", ("topology",)
    ),
    "sink_has_one_parent": Planted(
        "headrace.stream.topology.topology:Topology.add_sink",
        "topic, parents,",
        "topic, parents[:1],",
        ("topology",),
    ),
    "store_is_not_connected": Planted(
        "headrace.stream.topology.topology:Topology.add_state_store",
        "add_store(store, processors)",
        "add_store(store, ())",
        ("topology",),
    ),
    "read_only_store_has_a_changelog": Planted(
        "headrace.stream.topology.topology:Topology.add_read_only_state_store",
        "self.builder.use_source_topic(store.name, topic)",
        "pass",
        ("topology",),
    ),
    "global_store_ignores_tombstones": Planted(
        TASK + "global_task:GlobalTask.update",
        "    current = self.context.current",
        "    if value is None:\n        return\n    current = self.context.current",
        ("global_store",),
    ),
    "printed_label_is_ignored": Planted(
        DSL + "stream_operators:print_records", "if label is None else label", "", ("print",)
    ),
    "foreach_skips_null_values": Planted(
        PROCESSORS + "stateless:KStreamForeach.bind",
        "return of_record(self.action, self.takes)",
        "each = of_record(self.action, self.takes)\n"
        "    return lambda *record: record[1] is None or each(*record)",
        ("foreach",),
    ),
    "sessions_by_key_close": Planted(
        STATE + "session_bytes:PersistentSessionBytes.rows_by_end",
        "if not self.schema.is_time_first:",
        "if False:",
        ("session",),
    ),
    "table_is_read_without_its_cache": Planted(
        STATE + "key_value_store:CachedKeyValueStore.get",
        "self._deferred.get(key, key)",
        "None",
        ("table_reader",),
    ),
    "store_forgets_headers": Planted(
        STATE + "formats.headers:headers_bytes", "if not headers:", "if True:", PROCESSES
    ),
    "sessions_with_headers_are_as_without": Planted(
        DSL + "stores:Materialized.session",
        "if self._has_headers",
        "if False",
        ("session",),
        "dsl.store.format",
    ),
    "tables_with_headers_are_as_without": Planted(
        DSL + "stores:Materialized.key_value",
        "if self._has_headers",
        "if False",
        ("count",),
        "dsl.store.format",
    ),
    "record_without_partition_is_sent": Planted(
        TASK + "collector:RecordCollector.send",
        "= self._partitions(partitioner, topic, key, value)",
        "= self._partitions(partitioner, topic, key, value) or (None,)",
        ("to", "repartition"),
    ),
    "second_source_of_a_topic_is_lost": Planted(
        DSL + "logical_graph:LogicalGraph._merge_sources", "first.merge(node, serdes)", "pass", ("merge",)
    ),
    # what a result consists of
    "changelog_loses_its_timestamp": Planted(
        TASK + "context:TaskContext.log_change",
        "value, timestamp, headers)",
        "value, 0, headers)",
        ("count",),
    ),
    "changelog_loses_its_headers": Planted(
        TASK + "context:TaskContext.log_change",
        "value, timestamp, headers)",
        "value, timestamp, ())",
        ("count",),
    ),
    "changelog_has_other_keys": Planted(
        TASK + "context:TaskContext.log_change",
        "partition, key, value",
        "partition, key[::-1], value",
        ("session",),
    ),
    "changelog_has_other_values": Planted(
        TASK + "context:TaskContext.log_change",
        "key, value, timestamp",
        "key, value and value[1:], timestamp",
        ("count",),
    ),
    "sink_loses_its_headers": Planted(
        TASK + "collector:RecordCollector.send",
        "value_bytes, timestamp, headers)",
        "value_bytes, timestamp, ())",
        ("to",),
    ),
    "sink_takes_another_timestamp": Planted(
        TASK + "collector:RecordCollector.send",
        "value_bytes, timestamp, headers)",
        "value_bytes, timestamp + 1, headers)",
        ("to",),
    ),
    "store_reads_backwards": Planted(
        STATE + "key_value_store:TypedKeyValueStore.all",
        "None, None, True",
        "None, None, False",
        ("to_table",),
    ),
    "window_store_reads_backwards": Planted(
        STATE + "window_store:TypedWindowStore.all",
        "self.fetch_all",
        "self.backward_fetch_all",
        ("tumbling",),
    ),
    "version_is_read_too_early": Planted(
        STATE + "versioned_store:TypedVersionedStore.get_as_of", "timestamp)", "timestamp - 1)", GRACE_JOINS
    ),
    "dropped_records_do_not_count": Planted(TASK + "context:TaskContext.dropped", "+ 1", "+ 0", ("count",)),
    "description_has_no_stores": Planted(
        "headrace.stream.topology.description:_said", "java_order.grown(spec.stores)", "()", ("count",)
    ),
}
