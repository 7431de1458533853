"""Streams applications, client telemetry, and logs of events."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from ....clients.admin.admin_types import Resource
from ....clients.admin.streams_groups import as_group
from ....protocol.errors import ConfigError, HeadraceError, UnknownTopicOrPartitionError
from ....protocol.model import AUDIT_TOPIC, TopicPartition
from ....runtime.clock_io import wall_ms
from ....stream.topology.description import text_of
from ....stream.watch.application import application_view, positions_of, topics_of
from ...web.problems import text_of_error
from ..browsing_io import read_page
from ..page import Page
from ..search import Search
from .cluster import first_error

if TYPE_CHECKING:
    from starlette.responses import Response

    from ..visit import Visit

TELEMETRY_KEYS = ("metrics", "interval.ms", "match")


async def streams(visit: Visit) -> Response:
    """The streams applications: groups of that type."""
    snapshot = await visit.snapshot()
    rows = [row for row in snapshot.group_rows if row.group_type == "streams"]
    return visit.render("streams.html", list=visit.paged(rows))


async def application(visit: Visit) -> Response:
    """One application: the reports of its instances, its tasks with their lags and what they restore, and the
    topology that its members have sent."""
    name = visit.text("id")
    results = await visit.admin.describe_streams_groups(name, include_topology_description=True)
    found = results[name]
    wanted = [topic for topics in topics_of(found).values() for topic in topics]
    described = await visit.admin.describe_topics(*dict.fromkeys(wanted)) if wanted else {}
    places = [
        TopicPartition(topic, part.partition)
        for topic in described
        if topic not in getattr(described, "errors", {})
        for part in described[topic].partitions
    ]
    committed = await visit.admin.list_group_offsets(name, places) if places else {}
    reports = await visit.shared.instances.reports(found)
    positions = positions_of(found, committed, reports)
    counted = await visit.admin.count_records({tp: (offset,) for tp, offset in positions.items()})
    lags = {tp: counted[tp][offset] for tp, offset in positions.items() if tp not in counted.errors}
    view = application_view(found, committed, reports, lags, wall_ms())
    graph = found.topology_description
    return visit.render(
        "application.html",
        view=view,
        group=as_group(found),
        graph=graph,
        topology=text_of(graph) if graph is not None else "",
        subtopologies=found.subtopologies or (),
    )


async def telemetry(visit: Visit, error: str = "", status: int = 200) -> Response:
    """Subscriptions to metrics that clients push (KIP-714)."""
    configured = await visit.admin.list_config_resources(configured_only=True)
    wanted = [each for each in configured if each.kind == "client-metrics"]
    found = await visit.admin.describe_configs(*wanted) if wanted else {}
    rows = [
        (each.name, {key: found[each][key].value or "" for key in TELEMETRY_KEYS})
        for each in sorted(wanted, key=lambda each: each.name)
    ]
    form = visit.form if status != 200 else {}
    return visit.render("telemetry.html", status, rows=rows, form=form, error=error)


async def change_telemetry(visit: Visit) -> Response:
    """Set or delete a subscription."""
    name = visit.field("name") or str(uuid.uuid4())
    is_deletion = bool(visit.field("delete"))
    changes: dict[str, Any] = {
        key: None if is_deletion else visit.field(key) or None for key in TELEMETRY_KEYS
    }
    action = "delete subscription" if is_deletion else "set subscription"
    try:
        if not is_deletion and not any(changes.values()):
            raise ConfigError("a subscription needs metrics, an interval or a match")
        (await visit.admin.alter_configs({Resource.client_metrics(name): changes})).raise_for_errors()
    except (HeadraceError, ExceptionGroup) as failure:
        return await telemetry(visit, visit.failed(action, name, first_error(failure)), 400)
    visit.did(action, name)
    return visit.see("/telemetry", f"{action}: {name}")


async def events(visit: Visit) -> Response:
    """The actions of this console, and the newest decisions of the audit topic."""
    decisions, trouble = None, ""
    try:
        search = Search(AUDIT_TOPIC, value_format="json", limit=100)
        page = await read_page(visit.clients, search)
        decisions = [(row, parsed_event(row.value.parsed)) for row in page.rows]
    except UnknownTopicOrPartitionError:
        trouble = "There is no audit topic: it is written where authorizer.class.name is set."
    except HeadraceError as failure:
        trouble = text_of_error(failure)
    actions = visit.shared.actions.latest()
    if visit.user and decisions is None:
        # a user who may not read the decisions about others sees its own actions
        actions = [each for each in actions if each.user == visit.user]
    return visit.render("events.html", actions=actions[:200], decisions=decisions, trouble=trouble)


def parsed_event(event: Any) -> dict[str, Any]:
    """The fields of a decision that the page shows; empty ones if the record is another one."""
    event = event if isinstance(event, dict) else {"other": json.dumps(str(event))}
    names = ("principal", "host", "api", "operation", "resource_type", "resource", "allowed", "count", "rule")
    return {name: event.get(name, "") for name in names}


PAGES = (
    Page("GET", "/streams", streams),
    Page("GET", "/application", application),
    Page("GET", "/telemetry", telemetry),
    Page("POST", "/telemetry", change_telemetry),
    Page("GET", "/events", events),
)
