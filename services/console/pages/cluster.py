"""Overview, nodes, and one node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....clients.admin.admin_types import Resource
from ....protocol.errors import HeadraceError
from ...web.problems import Problem, text_of_error
from ..config_rows import changes_of, config_rows
from ..latencies_io import endpoint_of, read_latencies
from ..page import Page
from ..snapshot import sparkline

if TYPE_CHECKING:
    from starlette.responses import Response

    from ..latencies import Latency
    from ..snapshot import NodeRow, Snapshot
    from ..visit import Visit

MOST_LISTED = 20


async def overview(visit: Visit) -> Response:
    """The state of the cluster on one page."""
    snapshot = await visit.snapshot()
    rows = snapshot.group_rows
    history = snapshot.history
    return visit.render(
        "overview.html",
        snapshot=snapshot,
        problems=problems_of(snapshot),
        topics=sum(not row.is_internal for row in snapshot.topic_rows),
        records=sum(row.records or 0 for row in snapshot.topic_rows),
        size=sum(row.size or 0 for row in snapshot.topic_rows) if snapshot.log_dirs else None,
        lag=sum(row.lag or 0 for row in rows),
        appended=history[-1].appended if history else None,
        committed=history[-1].committed if history else None,
        appended_line=sparkline(point.appended for point in history),
        committed_line=sparkline(point.committed or 0 for point in history),
        busiest=sorted((row for row in snapshot.topic_rows if row.rate), key=lambda row: -(row.rate or 0))[
            :5
        ],
        laggards=sorted((row for row in rows if row.lag), key=lambda row: -(row.lag or 0))[:5],
        most=MOST_LISTED,
    )


def problems_of(snapshot: Snapshot) -> list[tuple[str, str]]:
    """(level, text) of what an operator should look at, the worst first."""
    found: list[tuple[str, str]] = []
    if snapshot.offline:
        found.append(("bad", f"{len(snapshot.offline)} partitions are offline: they have no leader"))
    down = [node for node in snapshot.node_rows if node.state == "fenced"]
    found += [
        ("bad", f"node {node.node_id} ({node.endpoint}) is down or fenced") for node in down[:MOST_LISTED]
    ]
    quorum = snapshot.quorum
    if quorum is not None:
        silent = [each for each in quorum.voters if each.last_caught_up_ago_ms > 10_000]
        found += [("bad", f"controller {each.replica_id} is behind by {each.lag} records") for each in silent]
    if snapshot.under_replicated:
        found.append(("warn", f"{len(snapshot.under_replicated)} partitions are under-replicated"))
    found += [
        ("bad", f"node {node.node_id}: {text}") for node in snapshot.node_rows for text in node.problems
    ]
    for node in snapshot.node_rows:
        used = node.disk_used_percent
        if used is not None and used >= 85:
            found.append(("bad" if used >= 95 else "warn", f"node {node.node_id}: the disk is {used} % full"))
    drained = [node for node in snapshot.node_rows if node.state == "shutting_down"]
    found += [("info", f"node {node.node_id} is drained, or shuts down") for node in drained]
    if snapshot.not_preferred:
        found.append(("info", f"{snapshot.not_preferred} partitions are not led by their preferred leader"))
    if snapshot.reassignments:
        found.append(("info", f"{len(snapshot.reassignments)} partitions are being reassigned"))
    found += [("warn", f"{part} could not be read: {reason}") for part, reason in snapshot.troubles.items()]
    order = {"bad": 0, "warn": 1, "info": 2}
    return sorted(found, key=lambda each: order[each[0]])


async def nodes(visit: Visit) -> Response:
    """All registered nodes and the controllers."""
    snapshot = await visit.snapshot()
    return visit.render("nodes.html", snapshot=snapshot, rows=snapshot.node_rows)


def _node_of(snapshot: Snapshot, node_id: int) -> NodeRow:
    for row in snapshot.node_rows:
        if row.node_id == node_id:
            return row
    raise Problem(404, f"node {node_id} is not registered")


async def node(visit: Visit, error: str = "", status: int = 200) -> Response:
    """One node: its state, log dirs, partitions and configs."""
    node_id = visit.path_number("node_id")
    snapshot = await visit.snapshot()
    row = _node_of(snapshot, node_id)
    trouble, configs, latency_trouble = "", [], ""
    latencies: list[Latency] = []
    if row.state != "fenced":
        resource = Resource.broker(node_id)
        try:
            found = (await visit.admin.describe_configs(resource, synonyms=True, docs=True, timeout=5.0))[
                resource
            ]
            configs = config_rows(found)
            latencies, latency_trouble = await _latencies(found["metrics.listener"].value or "", row)
        except (HeadraceError, TimeoutError) as failure:
            trouble = text_of_error(failure)
    behind = [part for part in snapshot.partitions if node_id in part.replicas and node_id not in part.isr]
    return visit.render(
        "node.html",
        status,
        node=row,
        dirs=snapshot.log_dirs.get(node_id),
        configs=configs,
        trouble=trouble,
        latencies=latencies,
        latency_trouble=latency_trouble,
        behind=behind[:100],
        behind_count=len(behind),
        error=error,
        show_all=visit.text("all") == "1",
    )


async def _latencies(listener: str, row: NodeRow) -> tuple[list[Latency], str]:
    """The times of requests at a node, and why there are none."""
    endpoint = endpoint_of(listener, row.endpoint.rpartition(":")[0])
    if endpoint is None:
        return [], "The node has no metrics.listener with a port."
    try:
        return await read_latencies(endpoint), ""
    except OSError as error:
        return [], f"Its metrics could not be read at {endpoint.host}:{endpoint.port}: {error}"


async def drain(visit: Visit) -> Response:
    """Move all leaders off a node, or end that."""
    node_id = visit.path_number("node_id")
    is_drained = visit.field("to") != "active"
    action = "drain" if is_drained else "end drain"
    try:
        found = await visit.admin.drain_node(node_id, drained=is_drained)
    except HeadraceError as failure:
        return await node(visit, visit.failed(action, f"node {node_id}", failure), 400)
    visit.did(action, f"node {node_id}")
    if not is_drained:
        return visit.see(f"/nodes/{node_id}", f"node {node_id} can lead partitions again")
    notice = f"node {node_id} is drained: it leads {found.leaders_left} partitions"
    if found.below_min_isr:
        topics = ", ".join(found.topics_below_min_isr[:5])
        notice += (
            f"; {found.below_min_isr} partitions are below min.insync.replicas: acks=all fails in {topics}"
        )
    return visit.see(f"/nodes/{node_id}", notice)


async def unregister(visit: Visit) -> Response:
    """Remove the registration of a stopped node."""
    node_id = visit.path_number("node_id")
    try:
        await visit.admin.unregister_broker(node_id)
    except HeadraceError as failure:
        return await node(visit, visit.failed("unregister", f"node {node_id}", failure), 400)
    visit.did("unregister", f"node {node_id}")
    return visit.see("/nodes", f"node {node_id} is unregistered")


async def alter(visit: Visit) -> Response:
    """Change dynamic configs of a node."""
    node_id = visit.path_number("node_id")
    changes: dict[str, Any] = changes_of(visit)
    target = f"node {node_id}: {', '.join(changes)}"
    resource = Resource.broker(node_id)
    try:
        (await visit.admin.alter_configs({resource: changes})).raise_for_errors()
    except (HeadraceError, ExceptionGroup) as failure:
        return await node(visit, visit.failed("alter configs", target, first_error(failure)), 400)
    visit.did("alter configs", target)
    return visit.see(f"/nodes/{node_id}", f"{', '.join(changes)} changed")


def first_error(failure: BaseException) -> BaseException:
    """The error of an operation with one item."""
    return first_error(failure.exceptions[0]) if isinstance(failure, BaseExceptionGroup) else failure


PAGES = (
    Page("GET", "/", overview),
    Page("GET", "/nodes", nodes),
    Page("GET", "/nodes/{node_id:int}", node),
    Page("POST", "/nodes/{node_id:int}/drain", drain),
    Page("POST", "/nodes/{node_id:int}/unregister", unregister),
    Page("POST", "/nodes/{node_id:int}/configs", alter),
)
