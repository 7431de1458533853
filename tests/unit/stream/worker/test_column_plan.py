"""Which applications read their source topics by column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from headrace.clients.serdes import int64, utf8
from headrace.stream import App, Count, Sum
from headrace.stream.task.timestamps import UsePartitionTimeOnInvalidTimestamp
from headrace.stream.worker.planner_io import _column_paths


def paths_of(app: App) -> Mapping[int, Any]:
    built = app.topology().build("app")
    return _column_paths({each: built.sub_topology(each) for each in built.sub_topology_ids}, app.settings)


def numbers(**options: Any) -> App:
    app = App("app", key=utf8, value=int64, **options)
    app.stream("in").group_by_key().aggregate(n=Count(), total=Sum(), store="rows").to_stream().to("out")
    return app


def test_an_aggregation_of_numbers_reads_columns() -> None:
    """Without Arrow sections."""
    (path,) = paths_of(numbers())[0].values()
    assert path.aggregate is not None


def test_a_thread_that_needs_records_reads_records() -> None:
    """A second sub-topology without a path would have to make records of the columns."""
    app = numbers()
    app.stream("other").map_values(abs).to("out")
    assert paths_of(app) == {}


@pytest.mark.parametrize("is_sure", [True, False])
def test_an_arrow_section_decides_for_all(is_sure: bool) -> None:
    """Its sub-topology reads columns, whatever the others do."""
    app = numbers()
    app.stream("other").arrow(lambda batch: batch).to("out")
    if not is_sure:
        app.stream("third").map_values(abs).to("out")
    paths = paths_of(app)
    assert ([path.aggregate for path in paths[0].values()] != []) is is_sure
    assert [len(path.sections) for path in paths[1].values()] == [1]


def test_other_timestamps_need_records() -> None:
    """An extractor of the user gets a record."""
    assert paths_of(numbers(timestamp=UsePartitionTimeOnInvalidTimestamp())) == {}
