"""Reassignments: plan, start, progress, cancel; and preferred leader elections of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....clients.admin.admin_types import ElectionType, NodeState
from ....protocol.errors import ConfigError, ElectionNotNeededError, HeadraceError
from ....protocol.model import TopicPartition
from ...reassignment_plan import generate, plan_of, text_of_plan
from ..page import Page, results_text
from ..visit import whole

if TYPE_CHECKING:
    from starlette.responses import Response

    from ...reassignment_plan import Plan
    from ..snapshot import Snapshot
    from ..visit import Visit

MOST_SHOWN = 500


async def moves(visit: Visit, error: str = "", status: int = 200) -> Response:
    """The reassignments that go on, and the form of the next one."""
    snapshot = await visit.snapshot()
    going = await visit.admin.list_partition_reassignments()
    rows = [(tp, each, _progress(snapshot, tp, each.adding_replicas)) for tp, each in sorted(going.items())]
    return visit.render(
        "moves.html",
        status,
        rows=rows[:MOST_SHOWN],
        total=len(rows),
        nodes=[node for node in snapshot.node_rows if node.state == "active"],
        snapshot=snapshot,
        topic=visit.text("topic"),
        form=visit.form if status != 200 else {},
        error=error,
    )


def _progress(snapshot: Snapshot, tp: TopicPartition, adding: tuple[int, ...]) -> int | None:
    """The part of the bytes that the new replicas have, in percent of the largest replica."""
    sizes: dict[int, int] = {}
    for node_id, dirs in snapshot.log_dirs.items():
        for each in dirs:
            for replica in each.replicas:
                if (replica.topic, replica.partition) == tp:
                    sizes[node_id] = replica.size_bytes
    largest = max(sizes.values(), default=0)
    if not adding or not largest:
        return None
    return round(100 * sum(sizes.get(node_id, 0) for node_id in adding) / (largest * len(adding)))


async def plan(visit: Visit) -> Response:
    """What a reassignment would move; nothing is changed."""
    try:
        made, current = await _plan(visit)
    except HeadraceError as failure:
        return await moves(visit, str(failure), 400)
    snapshot = await visit.snapshot()
    rows = [(tp, current.get(tp, ()), nodes) for tp, nodes in sorted(made.items())]
    changed = [row for row in rows if row[1] != row[2]]
    copies = [(tp, node) for tp, old, new in changed for node in new if node not in old]
    sizes = _largest_sizes(snapshot)
    return visit.render(
        "move_plan.html",
        rows=changed[:MOST_SHOWN],
        changed=len(changed),
        total=len(rows),
        copies=len(copies),
        copied_bytes=sum(sizes.get(tp, 0) for tp, _ in copies),
        plan=text_of_plan({tp: new for tp, _, new in changed}) if changed else "",
    )


def _largest_sizes(snapshot: Snapshot) -> dict[tuple[str, int], int]:
    sizes: dict[tuple[str, int], int] = {}
    for dirs in snapshot.log_dirs.values():
        for each in dirs:
            for replica in each.replicas:
                place = (replica.topic, replica.partition)
                sizes[place] = max(sizes.get(place, 0), replica.size_bytes)
    return sizes


async def _plan(visit: Visit) -> tuple[Plan, Plan]:
    """(the plan, the current replicas). Errors: ConfigError."""
    names = [name for name in visit.field("topics").replace(",", " ").split() if name]
    if not names:
        raise ConfigError("name the topics to move")
    results = await visit.admin.describe_topics(*names)
    current = {
        TopicPartition(name, part.partition): part.replicas
        for name in names
        for part in results[name].partitions
    }
    cluster = await visit.admin.describe_cluster()
    wanted = {whole("node", text, 2**31 - 1) for text in visit.fields("node")}
    racks = {
        node.node_id: node.rack
        for node in cluster.nodes
        if node.state is NodeState.ACTIVE and (not wanted or node.node_id in wanted)
    }
    factor = visit.field("factor")
    return generate(current, racks, whole("replication factor", factor, 100) if factor else None), current


async def start(visit: Visit) -> Response:
    """Start the reassignments of a plan that was shown."""
    try:
        made = plan_of(visit.raw_field("plan"))
        results = await visit.admin.alter_partition_reassignments(made)
    except HeadraceError as failure:
        return await moves(visit, visit.failed("start reassignment", "plan", failure), 400)
    if results.errors:
        failed = visit.failed("start reassignment", "plan", next(iter(results.errors.values())))
        return await moves(visit, f"{results_text(results.errors, len(results))} ({failed})", 400)
    visit.did(
        "start reassignment", f"{len(made)} partitions of {', '.join(sorted({tp.topic for tp in made}))}"
    )
    return visit.see("/moves", f"the reassignment of {len(made)} partitions has started")


async def cancel(visit: Visit) -> Response:
    """Cancel one reassignment, or all."""
    topic = visit.field("topic")
    if topic:
        places = [TopicPartition(topic, visit.field_number("partition", most=2**31 - 1))]
    else:
        places = list(await visit.admin.list_partition_reassignments())
    target = str(places[0]) if len(places) == 1 else f"{len(places)} partitions"
    if not places:
        return visit.see("/moves", "no reassignment is going on")
    try:
        results = await visit.admin.alter_partition_reassignments(dict.fromkeys(places, None))
    except HeadraceError as failure:
        return await moves(visit, visit.failed("cancel reassignment", target, failure), 400)
    if results.errors:
        failed = visit.failed("cancel reassignment", target, next(iter(results.errors.values())))
        return await moves(visit, f"{results_text(results.errors, len(results))} ({failed})", 400)
    visit.did("cancel reassignment", target)
    return visit.see("/moves", f"the reassignment of {target} is cancelled")


async def elect(visit: Visit) -> Response:
    """Elect the preferred leaders of all partitions."""
    try:
        results = await visit.admin.elect_leaders(ElectionType.PREFERRED, None)
    except HeadraceError as failure:
        return await moves(visit, visit.failed("preferred election", "all partitions", failure), 400)
    errors = {tp: e for tp, e in results.errors.items() if not isinstance(e, ElectionNotNeededError)}
    if errors:
        failed = visit.failed("preferred election", "all partitions", next(iter(errors.values())))
        return await moves(visit, f"{results_text(errors, len(results))} ({failed})", 400)
    visit.did("preferred election", "all partitions")
    return visit.see("/moves", f"{len(results) - len(results.errors)} leaders were elected")


PAGES = (
    Page("GET", "/moves", moves),
    Page("POST", "/moves/plan", plan),
    Page("POST", "/moves/start", start),
    Page("POST", "/moves/cancel", cancel),
    Page("POST", "/moves/elect", elect),
)
