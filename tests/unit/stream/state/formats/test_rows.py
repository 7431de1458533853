"""Rows in topics and stores."""

from __future__ import annotations

from headrace.stream import Count, Max, Mean, Row, Sum, rows
from headrace.stream.processors.named_aggregates import NamedAggregates


def test_a_row_in_a_topic_is_a_map_of_results() -> None:
    """Any reader of MessagePack reads it."""
    assert rows.dumps(Row(total=3, n=1)).hex() == "82a5746f74616c03a16e01"
    assert rows.loads(bytes.fromhex("82a5746f74616c03a16e01")) == {"total": 3, "n": 1}


def test_a_stored_row_has_states_under_name_and_kind() -> None:
    """Two aggregates of one name and another kind share nothing."""
    aggregates = NamedAggregates({"mean": Mean(), "n": Count()})
    serde = aggregates.serde()
    row = aggregates.add("k", 5, aggregates.initializer())
    assert (
        serde.dumps(row).hex() == "82" + "a9" + b"mean:mean".hex() + "920501" + "a7" + b"n:count".hex() + "01"
    )
    assert serde.loads(serde.dumps(row)) == row == {"mean": 5.0, "n": 1}
    assert serde.loads(serde.dumps(row)).states == row.states


def test_a_program_that_adds_aggregates_reads_older_rows() -> None:
    """The new ones begin without values, and those that are gone are ignored."""
    before = NamedAggregates({"total": Sum(), "n": Count()})
    after = NamedAggregates({"n": Count(), "hi": Max(), "total": Mean()})
    row = before.add("k", 5, before.initializer())
    assert after.serde().loads(before.serde().dumps(row)) == {"n": 1, "hi": None, "total": None}
