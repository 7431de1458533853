"""The text of `headrace stream status` and `top`."""

from __future__ import annotations

import pytest
from headrace.services.cli.stream_status import Rates, lines_of, restore_text, span_text
from headrace.stream.watch.application import (
    ApplicationView,
    InstanceView,
    OperatorView,
    StoreView,
    TaskView,
    ThreadView,
)


def view(records: int, **changes: object) -> ApplicationView:
    store = StoreView("counts", 12, 2048, None)
    task = TaskView("0_1", "active", "RUNNING", 1500, 12_500, records, 80.0, 9000, 200_000, (store,))
    thread = ThreadView("t-1", "m-1", "RUNNING", 0, 0.5, 0.4, 0.1, (task,))
    instance = InstanceView(
        "p-1", "10.0.0.1", "one:9300", "RUNNING", None, (thread,), (OperatorView("count", 0, 0.5),)
    )
    fields = {
        "application": "app",
        "state": "Stable",
        "group_epoch": 3,
        "topology_epoch": 0,
        "lag": 1500,
        "lag_ms": 12_500,
        "records_per_s": 80.0,
        "unassigned": (),
        "instances": (instance,),
    }
    return ApplicationView(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_view_as_text() -> None:
    """The application, its instances, a row per task, and the busiest operators."""
    lines = lines_of(view(500, unassigned=("0_0",), topology_epoch=1))
    assert lines[0] == "application app: Stable, 1 instances, lag 1,500, behind 12.5 s, 80 records/s"
    assert lines[1] == "tasks without a member: 0_0"
    assert lines[2] == "instance p-1 at one:9300: RUNNING"
    assert "older topology than epoch 1" in lines[3]
    head, row = lines[5].split(), lines[6].split()
    assert head[:6] == ["TASK", "ROLE", "STATE", "LAG", "BEHIND", "RECORDS-S"]
    assert row[:4] == ["0_1", "active", "RUNNING", "1500"]
    assert "9,000, 3 min 20 s left" in lines[6]
    assert "2.0 KiB" in lines[6]
    assert lines[-1].split()[:3] == ["count", "0", "50%"]


def test_rates_between_two_views() -> None:
    """The first view, and a task that counts from 0 again, have the rates that tasks report."""
    rates = Rates()
    place = "m-1", "0_1"
    assert rates.of(view(500), 10.0) == {place: 80.0}
    assert rates.of(view(900), 12.0) == {place: 200.0}
    assert rates.of(view(10), 14.0) == {place: 80.0}
    assert "200 records/s" in lines_of(view(900), {place: 200.0})[0]


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (None, "-"),
        (0, "0 ms"),
        (999, "999 ms"),
        (12_500, "12.5 s"),
        (200_000, "3 min 20 s"),
        (7_500_000, "2 h 5 min"),
    ],
)
def test_spans_have_two_units(span_ms: int | None, text: str) -> None:
    """In the two units that matter."""
    assert span_text(span_ms) == text


def test_nothing_left_to_restore_is_not_shown() -> None:
    """Nor what is not known."""
    task = view(1).instances[0].threads[0].tasks[0]
    for remaining in (0, None):
        changed = TaskView(task.task, "active", None, None, None, None, None, remaining, None, ())
        assert restore_text(changed) is None
