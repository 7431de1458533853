"""Groups: the list, one group with its lag, reset of offsets in two steps, deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....clients.admin.admin_types import EARLIEST, LATEST
from ....clients.durations import duration_ms
from ....protocol.errors import ConfigError, HeadraceError, NonEmptyGroupError
from ....protocol.model import TopicPartition
from ....runtime.clock_io import wall_ms
from ... import group_reset
from ...group_reset import Bounds, Move, Rule
from ..page import Page, results_text
from ..visit import time_ms
from .cluster import first_error

if TYPE_CHECKING:
    from starlette.responses import Response

    from ..visit import Visit

RULES = {
    "earliest": ("to the beginning", Rule.EARLIEST),
    "latest": ("to the end", Rule.LATEST),
    "current": ("to the committed offset, or the end", Rule.CURRENT),
    "offset": ("to an offset", Rule.OFFSET),
    "shift": ("by a number of records", Rule.SHIFT),
    "time": ("to a time", Rule.TIME),
    "duration": ("back by a duration (PT1H, P1D)", Rule.TIME),
}
SORTS = {
    "group": lambda row: row.group_id,
    "lag": lambda row: (-(row.lag or 0), row.group_id),
    "state": lambda row: (row.state, row.group_id),
}


async def groups(visit: Visit) -> Response:
    """The list of groups, with a search and pages."""
    snapshot = await visit.snapshot()
    wanted, sort, state = visit.text("q").lower(), visit.text("sort", "group"), visit.text("state")
    rows = [
        row
        for row in snapshot.group_rows
        if wanted in row.group_id.lower() and (not state or row.state == state)
    ]
    if sort != "group":
        rows.sort(key=SORTS.get(sort, SORTS["group"]))
    return visit.render(
        "groups.html",
        list=visit.paged(rows),
        q=visit.text("q"),
        sort=sort,
        state=state,
        states=sorted({row.state for row in snapshot.group_rows}),
        snapshot=snapshot,
    )


async def group(visit: Visit, error: str = "", status: int = 200) -> Response:
    """One group: its members and its lag, as the brokers count it."""
    group_id = visit.text("id")
    found = (await visit.admin.consumer_group_lag(group_id))[group_id]
    rows = sorted(found.partitions.items())
    return visit.render(
        "group.html",
        status,
        group=found.group,
        group_id=group_id,
        list=visit.paged(rows, 200),
        total_lag=found.records,
        oldest_s=found.seconds,
        topics=sorted({tp.topic for tp, _ in rows}),
        rules=RULES,
        form=visit.form if status != 200 else {},
        error=error,
    )


async def reset(visit: Visit) -> Response:
    """Reset offsets: the first step shows what would change, the second one commits exactly that."""
    group_id = visit.text("id")
    action, target = "reset offsets", f"group {group_id}"
    try:
        if visit.field("step") == "execute":
            return await _execute(visit, group_id)
        moves = await _moves(visit, group_id)
    except HeadraceError as failure:
        if visit.field("step") != "execute":
            return await group(visit, str(failure), 400)
        return await group(visit, visit.failed(action, target, failure), 400)
    return visit.render("group_reset.html", group_id=group_id, moves=moves)


async def _moves(visit: Visit, group_id: str) -> list[Move]:
    """What a reset would change. Errors: NonEmptyGroupError, ConfigError."""
    described = await visit.admin.describe_groups(group_id)
    members = described[group_id].members
    if members:
        raise NonEmptyGroupError(f"group {group_id!r} has {len(members)} members: stop them first")
    chosen = visit.field("rule")
    if chosen not in RULES:
        raise ConfigError(f"a rule is one of {', '.join(RULES)}")
    rule, value = RULES[chosen][1], visit.field("value")
    number, at_ms = 0, None
    if rule in (Rule.OFFSET, Rule.SHIFT):
        digits = value.removeprefix("-") if rule is Rule.SHIFT else value
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
            raise ConfigError(f"{value[:40]!r} is not a whole number")
        number = int(value)
    elif chosen == "time":
        at_ms = time_ms(value)
    elif chosen == "duration":
        at_ms = max(wall_ms() - duration_ms(value), 0)
    places = await _places(visit, group_id, visit.field("topic"))
    bounds = await _bounds(visit, group_id, places, at_ms)
    return [group_reset.moved(rule, tp, bounds[tp], number) for tp in sorted(bounds)]


async def _places(visit: Visit, group_id: str, topic: str) -> list[TopicPartition]:
    if topic:
        name, numbers = group_reset.scope_of(topic)
        described = (await visit.admin.describe_topics(name))[name]
        chosen = numbers or [part.partition for part in described.partitions]
        return [TopicPartition(name, number) for number in chosen]
    places = list(await visit.admin.list_group_offsets(group_id))
    if not places:
        raise ConfigError(f"group {group_id!r} has no committed offsets: name a topic")
    return places


async def _bounds(
    visit: Visit, group_id: str, places: list[TopicPartition], at_ms: int | None
) -> dict[TopicPartition, Bounds]:
    admin = visit.admin
    committed = await admin.list_group_offsets(group_id, places)
    starts = await admin.list_offsets(dict.fromkeys(places, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(places, LATEST))
    by_time = ends if at_ms is None else await admin.list_offsets(dict.fromkeys(places, at_ms))
    found: dict[TopicPartition, Bounds] = {}
    for tp in places:
        old = committed[tp]
        found[tp] = Bounds(
            starts[tp].offset, ends[tp].offset, None if old is None else old.offset, by_time[tp].offset
        )
    return found


async def _execute(visit: Visit, group_id: str) -> Response:
    """Commit the offsets that the first step has shown."""
    offsets: dict[TopicPartition, int] = {}
    for text in visit.fields("move"):
        topic, partition, offset = [*text.rsplit(" ", 2), "", ""][:3]
        if not (partition.isdecimal() and offset.isdecimal()):
            raise ConfigError(f"{text[:60]!r} is not a topic, a partition and an offset")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    if not offsets:
        raise ConfigError("no partition was chosen")
    results = await visit.admin.alter_group_offsets(group_id, offsets)
    if results.errors:
        failed = visit.failed("reset offsets", f"group {group_id}", next(iter(results.errors.values())))
        return await group(visit, f"{results_text(results.errors, len(results))} ({failed})", 400)
    visit.did("reset offsets", f"group {group_id}, {len(offsets)} partitions")
    return visit.see("/group", f"the offsets of {len(offsets)} partitions are reset", id=group_id)


async def delete(visit: Visit) -> Response:
    """Delete a group without members, with its offsets."""
    group_id = visit.text("id")
    target = f"group {group_id}"
    if visit.field("confirm") != group_id:
        return await group(visit, "Type the id of the group to confirm. Nothing was deleted.", 400)
    try:
        (await visit.admin.delete_groups(group_id)).raise_for_errors()
    except (HeadraceError, ExceptionGroup) as failure:
        return await group(visit, visit.failed("delete group", target, first_error(failure)), 400)
    visit.did("delete group", target)
    await visit.snapshot(fresh=True)
    return visit.see("/groups", f"group {group_id} is deleted")


PAGES = (
    Page("GET", "/groups", groups),
    Page("GET", "/group", group),
    Page("POST", "/group/reset", reset),
    Page("POST", "/group/delete", delete),
)
