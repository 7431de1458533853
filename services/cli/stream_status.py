"""`headrace stream status` and `top`: what a running application does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from .admin import open_admin
from .common import (
    Settings,
    bootstrap_option,
    cluster_option,
    config_option,
    form_option,
    reading_command,
)
from .completion import group_names
from .output import plain_table, print_object, size_text, write_line
from .sent_topology import sent_topology, topology_lines, topology_rows
from .watch import Watch, watchable

if TYPE_CHECKING:
    from ...protocol.records.streams_group_records import TopologyDescription
    from ...stream.watch.application import ApplicationView, TaskView

_TASKS = (
    "task",
    "role",
    "state",
    "lag",
    "behind",
    "records_s",
    "restore",
    "entries",
    "size",
    "thread",
    "host",
)
_OPERATORS = ("operator", "sub_topology", "busy", "host")
_MOST_OPERATORS = 10


@click.command()
@click.argument("application_id", metavar="APP", shell_complete=group_names)
@click.option(
    "--sample",
    type=click.FloatRange(0, 5),
    default=0.0,
    metavar="S",
    help="Seconds for which to sample the busy operators.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Seconds to wait for the instances.",
)
@click.option(
    "--topology",
    "has_topology",
    is_flag=True,
    help="Also show the topology that its instances sent to their group.",
)
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def status(
    settings: Settings, *, application_id: str, sample: float, timeout: float, has_topology: bool
) -> None:
    """Show the lag, the rate, the restoration and the stores of each task of application APP.

    Lags come from the committed offsets of its group, and so are also shown for members in Java; the rest
    comes from instances with the config application.server.
    """
    from ...stream import connect_queries

    with connect_queries(
        application_id, settings.addresses(), timeout_s=timeout, config=settings.client_config()
    ) as queries:
        view = queries.status(sample_ms=int(sample * 1000))
    graph = _sent(settings, application_id) if has_topology else None
    if settings.is_text:
        for line in [*lines_of(view), *([] if graph is None else topology_lines(graph))]:
            write_line(line)
    else:
        topology = {} if graph is None else {"topology": topology_rows(graph)}
        print_object({**view.as_json(), **topology}, settings.form)


def _sent(settings: Settings, application_id: str) -> TopologyDescription | None:
    from ...stream.query.security_config import split_query_security

    _, config = split_query_security(settings.client_config())
    with open_admin(settings, config) as admin:
        return sent_topology(admin, application_id)


@click.command()
@click.argument("application_id", metavar="APP", shell_complete=group_names)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Seconds between refreshes.",
)
@click.option("--count", type=click.IntRange(min=1), help="End after this many refreshes.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Seconds to wait for the instances.",
)
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
def top(
    settings: Settings, *, application_id: str, interval: float, count: int | None, timeout: float
) -> None:
    """Show `status` repeatedly, with the operators that take the most time, until Ctrl-C.

    Records per second are measured since the last refresh. -o jsonl prints a line per refresh.
    """
    from ...stream import connect_queries

    sample_ms = int(min(interval, 1.0) * 500)
    with connect_queries(
        application_id, settings.addresses(), timeout_s=timeout, config=settings.client_config()
    ) as queries:
        rates = Rates()

        def show() -> None:
            view = queries.status(sample_ms=sample_ms)
            shown = rates.of(view, time.monotonic())
            if settings.is_text:
                write_line("\n".join(lines_of(view, shown)))
            else:
                print_object(
                    {**view.as_json(), "records_per_s": round(sum(shown.values()), 1)}, settings.form
                )

        Watch(True, interval, count).run(show)


class Rates:
    """Records per second of each task between two views; of the first one, as the instances report them."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], int] = {}
        self._at_s: float | None = None

    def of(self, view: ApplicationView, now_s: float) -> dict[tuple[str, str], float]:
        """By member and task. `now_s` of a clock that does not go back."""
        counts, rates = {}, {}
        for _, thread, task in view.tasks():
            if task.records is None:
                continue
            place = thread.member, task.task
            counts[place] = task.records
            before = self._before.get(place)
            if before is None or self._at_s is None or task.records < before:
                rates[place] = task.records_per_s or 0.0
            else:
                rates[place] = (task.records - before) / max(now_s - self._at_s, 1e-3)
        self._before, self._at_s = counts, now_s
        return rates


def lines_of(view: ApplicationView, rates: dict[tuple[str, str], float] | None = None) -> list[str]:
    """A view as text. `rates` in place of the records per second that tasks report."""
    rate = view.records_per_s if rates is None else sum(rates.values())
    first = [
        f"application {view.application}: {view.state}, {len(view.instances)} instances",
        f"lag {_text(view.lag)}",
        f"behind {span_text(view.lag_ms)}",
        f"{'-' if rate is None else f'{rate:,.0f}'} records/s",
    ]
    lines = [", ".join(first)]
    if view.unassigned:
        lines.append(f"tasks without a member: {', '.join(view.unassigned)}")
    for each in view.instances:
        state = each.state or f"not known: {each.problem}"
        lines.append(f"instance {each.process} at {each.endpoint or each.host}: {state}")
        if any(thread.topology_epoch < view.topology_epoch for thread in each.threads):
            lines.append(f"  it has an older topology than epoch {view.topology_epoch}, that of the group")
    rows = []
    for instance, thread, task in view.tasks():
        own = task.records_per_s if rates is None else rates.get((thread.member, task.task))
        rows.append({**_row(task, own), "thread": thread.name, "host": instance.endpoint or instance.host})
    if rows:
        lines += ["", *plain_table(rows, _TASKS)]
    busy = [(operator, each) for each in view.instances for operator in each.operators]
    if busy:
        busy.sort(key=lambda found: -found[0].share)
        lines += ["", *plain_table([_operator(*each) for each in busy[:_MOST_OPERATORS]], _OPERATORS)]
    return lines


def _row(task: TaskView, rate: float | None) -> dict[str, Any]:
    sizes = [store.size_bytes for store in task.stores if store.size_bytes is not None]
    entries = [store.entries for store in task.stores if store.entries is not None]
    return {
        "task": task.task,
        "role": task.role,
        "state": task.state,
        "lag": task.lag,
        "behind": span_text(task.lag_ms),
        "records_s": None if rate is None else f"{rate:,.0f}",
        "restore": restore_text(task),
        "entries": sum(entries) if entries else None,
        "size": size_text(sum(sizes)) if sizes else None,
    }


def restore_text(task: TaskView) -> str | None:
    """What is left to restore: records, and the time that it takes; None if nothing is known to be left."""
    if not task.remaining:
        return None
    left = "" if task.eta_ms is None else f", {span_text(task.eta_ms)} left"
    return f"{task.remaining:,}{left}"


def span_text(span_ms: int | None) -> str:
    """A time such as 250 ms, 12.5 s, 3 min 20 s or 5 h 2 min."""
    if span_ms is None:
        return "-"
    seconds, minutes, hours = span_ms / 1000, span_ms // 60_000, span_ms // 3_600_000
    if span_ms < 1000:
        return f"{span_ms} ms"
    if not minutes:
        return f"{seconds:.1f} s"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min {int(seconds) % 60} s"


def _operator(operator: Any, instance: Any) -> dict[str, Any]:
    return {
        "operator": operator.name,
        "sub_topology": operator.sub_topology,
        "busy": f"{operator.share:.0%}",
        "host": instance.endpoint,
    }


def _text(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
