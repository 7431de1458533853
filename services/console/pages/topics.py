"""Topics: the list, one topic, and its changes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ....clients.admin.admin_types import EARLIEST, LATEST, ElectionType, NewTopic, Resource
from ....protocol.errors import ConfigError, ElectionNotNeededError, HeadraceError
from ....protocol.model import TopicPartition
from ..config_rows import changes_of, config_rows
from ..page import Page, results_text
from ..visit import whole
from .cluster import first_error

if TYPE_CHECKING:
    from starlette.responses import Response

    from ....clients.admin.admin_types import TopicDescription
    from ..visit import Visit

SORTS = {
    "name": lambda row: row.name,
    "partitions": lambda row: (-row.partitions, row.name),
    "records": lambda row: (-(row.records or 0), row.name),
    "size": lambda row: (-(row.size or 0), row.name),
    "rate": lambda row: (-(row.rate or 0), row.name),
    "problems": lambda row: (-row.offline, -row.under_replicated, row.name),
}


async def topics(visit: Visit) -> Response:
    """The list of topics, with a search and pages."""
    snapshot = await visit.snapshot()
    wanted, sort, has_internal = (
        visit.text("q").lower(),
        visit.text("sort", "name"),
        visit.text("internal") == "1",
    )
    rows = [
        row
        for row in snapshot.topic_rows
        if (has_internal or not row.is_internal) and wanted in row.name.lower()
    ]
    if sort != "name":
        rows.sort(key=SORTS.get(sort, SORTS["name"]))
    return visit.render(
        "topics.html",
        list=visit.paged(rows),
        q=visit.text("q"),
        sort=sort,
        has_internal=has_internal,
        snapshot=snapshot,
    )


async def new_topic(visit: Visit, error: str = "", status: int = 200) -> Response:
    """The form for a topic."""
    form = visit.form if status != 200 else {}
    return visit.render("topic_new.html", status, error=error, form=form)


async def create(visit: Visit) -> Response:
    """Create a topic."""
    name = visit.field("name")
    try:
        counts = {
            field: whole(field, visit.field(field), 100_000) if visit.field(field) else None
            for field in ("partitions", "replication_factor")
        }
        topic = NewTopic(
            name, counts["partitions"], counts["replication_factor"], _configs(visit.raw_field("configs"))
        )
        (await visit.admin.create_topics(topic)).raise_for_errors()
    except (HeadraceError, ExceptionGroup) as failure:
        return await new_topic(visit, visit.failed("create topic", name, first_error(failure)), 400)
    visit.did("create topic", name)
    await visit.snapshot(fresh=True)
    return visit.see(f"/topics/{name}", f"topic {name} is created")


def _configs(text: str) -> dict[str, str]:
    configs: dict[str, str] = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if line.strip() and (not separator or not name.strip()):
            raise ConfigError(f"{line[:80]!r} is not key=value")
        if line.strip():
            configs[name.strip()] = value.strip()
    return configs


async def _described(visit: Visit) -> TopicDescription:
    name = visit.path("name")
    return (await visit.admin.describe_topics(name))[name]


async def topic(visit: Visit, error: str = "", status: int = 200) -> Response:
    """One topic: its partitions."""
    described = await _described(visit)
    parts = visit.paged(described.partitions, 100)
    places = [
        TopicPartition(described.name, part.partition) for part in parts.rows if not part.is_unavailable
    ]
    starts = await visit.admin.list_offsets(dict.fromkeys(places, EARLIEST)) if places else {}
    ends = await visit.admin.list_offsets(dict.fromkeys(places, LATEST)) if places else {}
    offsets: dict[int, tuple[int, int]] = {}
    for tp in places:
        with contextlib.suppress(HeadraceError):
            offsets[tp.partition] = (starts[tp].offset, ends[tp].offset)
    snapshot = await visit.snapshot()
    row = next((each for each in snapshot.topic_rows if each.name == described.name), None)
    sizes: dict[int, int] = {}
    for dirs in snapshot.log_dirs.values():
        for each in dirs:
            for replica in each.replicas:
                if replica.topic == described.name:
                    sizes[replica.partition] = max(sizes.get(replica.partition, 0), replica.size_bytes)
    return visit.render(
        "topic.html",
        status,
        topic=described,
        name=described.name,
        list=parts,
        offsets=offsets,
        sizes=sizes,
        row=row,
        error=error,
        tab="partitions",
    )


async def configs(visit: Visit, error: str = "", status: int = 200) -> Response:
    """The configs of a topic, and what differs from the default."""
    name = visit.path("name")
    found = (await visit.admin.describe_configs(name, synonyms=True, docs=True))[Resource.topic(name)]
    rows = config_rows(found)
    has_all = visit.text("all") == "1" or status != 200
    return visit.render(
        "topic_configs.html",
        status,
        name=name,
        rows=rows if has_all else [row for row in rows if row.is_set or row.source != "default"],
        has_all=has_all,
        set_count=sum(row.is_set for row in rows),
        names=[row.name for row in rows if not row.is_read_only],
        error=error,
        tab="configs",
    )


async def alter(visit: Visit) -> Response:
    """Change a config of a topic."""
    name = visit.path("name")
    changes: dict[str, Any] = changes_of(visit)
    target = f"topic {name}: {', '.join(changes)}"
    try:
        (await visit.admin.alter_configs({name: changes})).raise_for_errors()
    except (HeadraceError, ExceptionGroup) as failure:
        return await configs(visit, visit.failed("alter configs", target, first_error(failure)), 400)
    visit.did("alter configs", target)
    return visit.see(f"/topics/{name}/configs", f"{', '.join(changes)} changed")


async def consumers(visit: Visit) -> Response:
    """The groups with offsets in a topic."""
    described = await _described(visit)
    snapshot = await visit.snapshot()
    rows = [
        (row, snapshot.group_lag_in(row.group_id, described.name))
        for row in snapshot.groups_of(described.name)
    ]
    return visit.render(
        "topic_groups.html", name=described.name, list=visit.paged(rows), tab="groups", snapshot=snapshot
    )


async def add_partitions(visit: Visit) -> Response:
    """Raise the number of partitions."""
    name = visit.path("name")
    try:
        total = visit.field_number("partitions", most=100_000)
        (await visit.admin.create_partitions({name: total})).raise_for_errors()
    except (HeadraceError, ExceptionGroup) as failure:
        return await topic(visit, visit.failed("add partitions", f"topic {name}", first_error(failure)), 400)
    visit.did("add partitions", f"topic {name} to {total}")
    return visit.see(f"/topics/{name}", f"{name} has {total} partitions")


async def elect(visit: Visit) -> Response:
    """Elect leaders of the partitions of a topic."""
    described = await _described(visit)
    kind = ElectionType.UNCLEAN if visit.field("kind") == "unclean" else ElectionType.PREFERRED
    places = [TopicPartition(described.name, part.partition) for part in described.partitions]
    if kind is ElectionType.UNCLEAN:
        places = [tp for tp, part in zip(places, described.partitions, strict=True) if part.leader < 0]
    action, target = f"{kind.name.lower()} election", f"topic {described.name}"
    if not places:
        return visit.see(f"/topics/{described.name}", "no partition needs an election")
    try:
        results = await visit.admin.elect_leaders(kind, places)
    except HeadraceError as failure:
        return await topic(visit, visit.failed(action, target, failure), 400)
    errors = {tp: e for tp, e in results.errors.items() if not isinstance(e, ElectionNotNeededError)}
    if errors:
        failed = visit.failed(action, target, next(iter(errors.values())))
        return await topic(visit, f"{results_text(errors, len(results))} ({failed})", 400)
    visit.did(action, target)
    elected = len(results) - len(results.errors)
    return visit.see(f"/topics/{described.name}", f"{elected} leaders were elected")


async def deletion(visit: Visit, error: str = "", status: int = 200) -> Response:
    """What deleting the topic, or its records, would do."""
    described = await _described(visit)
    snapshot = await visit.snapshot()
    row = next((each for each in snapshot.topic_rows if each.name == described.name), None)
    return visit.render(
        "topic_delete.html",
        status,
        name=described.name,
        topic=described,
        row=row,
        groups=snapshot.groups_of(described.name),
        error=error,
        tab="delete",
    )


async def delete(visit: Visit) -> Response:
    """Delete a topic whose name was typed."""
    name = visit.path("name")
    if visit.field("confirm") != name:
        return await deletion(visit, "Type the name of the topic to confirm. Nothing was deleted.", 400)
    try:
        (await visit.admin.delete_topics(name)).raise_for_errors()
    except (HeadraceError, ExceptionGroup) as failure:
        return await deletion(visit, visit.failed("delete topic", name, first_error(failure)), 400)
    visit.did("delete topic", name)
    await visit.snapshot(fresh=True)
    return visit.see("/topics", f"topic {name} is deleted")


async def purge(visit: Visit) -> Response:
    """Delete all records of a topic, and keep it."""
    described = await _described(visit)
    name = described.name
    if visit.field("confirm") != name:
        return await deletion(visit, "Type the name of the topic to confirm. Nothing was deleted.", 400)
    places = [TopicPartition(name, part.partition) for part in described.partitions]
    try:
        (await visit.admin.delete_records(dict.fromkeys(places, LATEST))).raise_for_errors()
    except (HeadraceError, ExceptionGroup) as failure:
        return await deletion(visit, visit.failed("delete records", name, first_error(failure)), 400)
    visit.did("delete records", name)
    return visit.see(f"/topics/{name}", f"all records of {name} are deleted")


PAGES = (
    Page("GET", "/topics", topics),
    Page("GET", "/new-topic", new_topic),
    Page("POST", "/new-topic", create),
    Page("GET", "/topics/{name}", topic),
    Page("GET", "/topics/{name}/configs", configs),
    Page("POST", "/topics/{name}/configs", alter),
    Page("GET", "/topics/{name}/groups", consumers),
    Page("POST", "/topics/{name}/partitions", add_partitions),
    Page("POST", "/topics/{name}/elect", elect),
    Page("GET", "/topics/{name}/delete", deletion),
    Page("POST", "/topics/{name}/delete", delete),
    Page("POST", "/topics/{name}/purge", purge),
)
