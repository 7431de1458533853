"""Planted bugs: each breaks one rule of Kafka Streams in headrace.stream, and the oracle must find it.

A bug is a change of a function's text: most processors are functions within functions, which no attribute
reaches. A bug whose text is gone fails: the list follows the code. The cases of a bug are those whose pair
has one of its operators, from the first seed on.
"""

from __future__ import annotations
import __future__

import importlib
import inspect
import textwrap
from typing import Any, NamedTuple

import pytest

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

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        """Replace the function. Errors: LookupError for a text that is not there."""
        module_name, _, path = self.where.partition(":")
        owner: Any = importlib.import_module(module_name)
        *classes, name = path.split(".")
        for each in classes:
            owner = getattr(owner, each)
        declared = inspect.getattr_static(owner, name)
        function = inspect.unwrap(getattr(declared, "__func__", declared))
        source = textwrap.dedent(inspect.getsource(function))
        if self.old not in source:
            raise LookupError(f"{self.where} has no {self.old!r}")
        made: dict[str, Any] = {}
        flags = __future__.annotations.compiler_flag
        exec(
            compile(source.replace(self.old, self.new), self.where, "exec", flags), function.__globals__, made
        )
        patch.setattr(owner, name, made[name])


WINDOWS = ("tumbling", "hopping")
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
ADVANCE = "if timestamp > stream_time:"

BUGS: dict[str, Planted] = {
    # windows
    "window_end_is_inside": Planted(
        DSL + "windows:TimeWindows.windows_for", "timestamp - size + advance", "timestamp - size", WINDOWS
    ),
    "window_closes_late": Planted(
        WINDOW_AGGREGATE, "window.end <= close_time", "window.end < close_time", WINDOWS
    ),
    "window_grace_is_ignored": Planted(
        WINDOW_AGGREGATE, "= stream_time - grace_ms", "= stream_time", WINDOWS
    ),
    "stream_time_goes_back": Planted(WINDOW_AGGREGATE, ADVANCE, "if True:", WINDOWS),
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
        LOOKUP + "_join", "if self._is_versioned else", "if False else", GRACE_JOINS
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
        tuple(OPERATORS),
    ),
}
