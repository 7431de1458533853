"""`headrace topic …`: create, list, describe and delete topics, add partitions, delete records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError
from ..network_status import pieces
from .admin import open_admin, raise_first
from .common import (
    NotFoundError,
    Settings,
    bootstrap_option,
    changing_command,
    cluster_option,
    config_option,
    form_option,
    list_form_option,
    reading_command,
)
from .completion import topic_names
from .delete_records import delete_records
from .output import note, print_object, print_rows, write_line
from .topic_offsets import offsets
from .watch import watchable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...clients.admin.admin_types import ConfigValue, PartitionDescription, TopicDescription
    from ...clients.sync.admin_io import Admin

_PLACE_COLUMNS = ("partition", "leader", "leader_epoch", "partition_epoch", "replicas", "isr", "elr")
_RARE_COLUMNS = ("last_known_elr", "adding_replicas", "removing_replicas", "offline_replicas")
_OFFSET_COLUMNS = ("beginning", "end", "records")
# By option name: whether a partition is shown, given its min.insync.replicas.
_FILTERS: dict[str, Callable[[PartitionDescription, int], bool]] = {
    "under_replicated": lambda part, _: part.is_under_replicated,
    "at_min_isr": lambda part, min_isr: part.is_at_min_isr(min_isr),
    "under_min_isr": lambda part, min_isr: part.is_under_min_isr(min_isr),
    "unavailable": lambda part, _: part.is_unavailable,
}


def _assignments(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> dict[int, tuple[int, ...]]:
    """Replicas by partition, of Kafka's 1:2,2:1. Errors: click.BadParameter."""
    try:
        parts = [] if text is None else [tuple(map(int, part.split(":"))) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not like 1:2,2:1: replicas of a partition, partitions"
        ) from None
    return dict(enumerate(parts))


@click.group()
def topic() -> None:
    """Create, describe, extend and delete topics."""


@topic.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(min=1),
    help="Number of partitions [default: num.partitions of the cluster].",
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Number of replicas of each partition [default: default.replication.factor of the cluster].",
)
@click.option(
    "--replica-assignment",
    "assignments",
    metavar="ID:ID,ID:ID…",
    callback=_assignments,
    help="Nodes of the replicas of each partition, the preferred leader first, in place of -p and -r.",
)
@click.option("--if-not-exists", is_flag=True, help="Leave existing topics as they are, without an error.")
@click.option("--dry-run", is_flag=True, help="Validate the request without making the change.")
@changing_command(bootstrap_option, cluster_option, config_option, form_option)
def create(
    settings: Settings,
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    assignments: dict[int, tuple[int, ...]],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics. -X sets their configs, such as -X retention.ms=3600000.

    --command-config is the config of the client.
    """
    from ...clients.admin.admin_types import NewTopic

    if assignments and (partitions or replication_factor):
        raise click.UsageError("--replica-assignment excludes --partitions and --replication-factor")
    topics = [NewTopic(name, partitions, replication_factor, settings.config, assignments) for name in names]
    with open_admin(settings, settings.client_config_without_pairs()) as admin:
        results = admin.create_topics(*topics, validate_only=dry_run)
        errors = results.errors
        if if_not_exists:
            errors = _without(errors, TopicAlreadyExistsError, "exists already")
        made = {name: results[name] for name in results if name not in results.errors}
        rows = [
            {
                "topic": name,
                "partitions": info.partitions,
                "replication_factor": info.replication_factor,
                "id": info.topic_id.hex() or None,
            }
            for name, info in made.items()
        ]
        if rows or not settings.is_text:
            print_rows(rows, ("topic", "partitions", "replication_factor", "id"), settings.form)
        raise_first(errors, len(names))


@topic.command("list")
@click.option("--internal", is_flag=True, help="Include internal topics.")
@reading_command(bootstrap_option, cluster_option, config_option, list_form_option)
@watchable
def list_topics(settings: Settings, *, internal: bool) -> None:
    """List topics with their ids and numbers of partitions."""
    with open_admin(settings, settings.client_config()) as admin:
        rows = [
            {"topic": item.name, "partitions": item.partitions, "id": item.topic_id.hex()}
            for item in admin.list_topics(internal=internal)
        ]
    print_rows(rows, ("topic", "partitions", "id"), settings.form)


@topic.command()
@click.argument("names", nargs=-1, metavar="[NAME…]", shell_complete=topic_names)
@click.option("--all", "is_all", is_flag=True, help="Describe all topics, without internal ones.")
@click.option("--id", "topic_ids", multiple=True, metavar="ID", help="Topic with this id; repeatable.")
@click.option(
    "--with-overrides",
    is_flag=True,
    help="Describe topics with own configs, without partitions.",
)
@click.option("--all-configs", is_flag=True, help="Include configs that have their default value.")
@click.option("--under-replicated", is_flag=True, help="Only partitions with replicas outside of the ISR.")
@click.option(
    "--at-min-isr", is_flag=True, help="Only partitions with exactly min.insync.replicas in the ISR."
)
@click.option(
    "--under-min-isr", is_flag=True, help="Only partitions below min.insync.replicas, which reject acks=all."
)
@click.option("--unavailable", is_flag=True, help="Only partitions without a leader.")
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def describe(
    settings: Settings,
    *,
    names: tuple[str, ...],
    topic_ids: tuple[str, ...],
    is_all: bool,
    with_overrides: bool,
    all_configs: bool,
    **filters: bool,
) -> None:
    """Show partitions, leaders, replicas, offsets and configs of topics.

    Of several filters a partition must match one. Without names, all topics are searched.
    """
    from ...clients.admin.admin_types import Resource

    chosen = [_FILTERS[name] for name, is_on in filters.items() if is_on]
    if not (names or topic_ids or chosen or is_all or with_overrides):
        raise click.UsageError("name a topic, or give --all, or a filter such as --under-replicated")
    if is_all and (names or topic_ids):
        raise click.UsageError("--all excludes names and --id")
    with open_admin(settings, settings.client_config()) as admin:
        wanted = _wanted(admin, names, topic_ids, is_all=is_all)
        described: list[dict[str, Any]] = []
        errors: dict[str, BaseException] = {}
        for piece in pieces(wanted):
            found = admin.describe_topics(*piece)
            errors.update(found.errors)
            known = [name for name in found if name not in found.errors]
            configs = admin.describe_configs(*(Resource.topic(name) for name in known))
            for name in known:
                values = configs[Resource.topic(name)]
                partitions = _chosen(found[name], values, chosen)
                if with_overrides and all(value.is_default for value in values.values()):
                    continue
                if partitions or not chosen:
                    partitions = [] if with_overrides else partitions
                    described.append(_described(admin, found[name], partitions, values, all_configs))
        if settings.is_text:
            for facts in described:
                _print_topic(facts)
        else:
            print_rows(described, (), settings.form)
        raise_first(errors, len(wanted))


topic.add_command(delete_records)
topic.add_command(offsets)


@topic.command("add-partitions")
@click.argument("name", shell_complete=topic_names)
@click.argument("total", type=click.IntRange(min=1))
@click.option("--dry-run", is_flag=True, help="Validate the request without making the change.")
@changing_command(bootstrap_option, cluster_option, config_option)
def add_partitions(settings: Settings, *, name: str, total: int, dry_run: bool) -> None:
    """Increase the number of partitions of topic NAME to TOTAL.

    Existing records stay in their partitions; new records of a key may go to another partition.
    """
    with open_admin(settings, settings.client_config()) as admin:
        results = admin.create_partitions({name: total}, validate_only=dry_run)
        raise_first(results.errors, 1)
    note(f"topic {name!r} {'may have' if dry_run else 'has'} {total} partitions")


@topic.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…", shell_complete=topic_names)
@click.option("--if-exists", is_flag=True, help="No error for a topic that does not exist.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@changing_command(bootstrap_option, cluster_option, config_option)
def delete(settings: Settings, *, names: tuple[str, ...], if_exists: bool, is_sure: bool) -> None:
    """Delete topics and all their records."""
    if not is_sure:
        click.confirm(f"Delete {', '.join(names)} and every record?", abort=True, err=True)
    with open_admin(settings, settings.client_config()) as admin:
        results = admin.delete_topics(*dict.fromkeys(names))
        gone = [name for name in results if name not in results.errors]
        if gone:
            note(f"deleted {', '.join(gone)}")
        errors = results.errors
        if if_exists:
            errors = _without(errors, UnknownTopicOrPartitionError, "does not exist")
        raise_first(errors, len(results))


def _without(
    errors: dict[str, BaseException], kind: type[BaseException], what: str
) -> dict[str, BaseException]:
    """The errors of other kinds; names the topics with one of this kind."""
    for name in (name for name, error in errors.items() if isinstance(error, kind)):
        note(f"topic {name!r} {what}")
    return {name: error for name, error in errors.items() if not isinstance(error, kind)}


def _wanted(admin: Admin, names: tuple[str, ...], topic_ids: tuple[str, ...], *, is_all: bool) -> list[str]:
    """The named topics, those with the ids, or all. Errors: NotFoundError for an id."""
    if names and not topic_ids:
        return list(dict.fromkeys(names))
    listed = admin.list_topics(internal=not is_all)
    by_id = {item.topic_id.hex(): item.name for item in listed}
    unknown = [text for text in topic_ids if text.lower() not in by_id]
    if unknown:
        raise NotFoundError(f"no topic has the id {unknown[0]!r}; `headrace topic list` shows the ids")
    found = [*names, *(by_id[text.lower()] for text in topic_ids)]
    return list(dict.fromkeys(found or by_id.values()))


def _chosen(
    found: TopicDescription,
    configs: Mapping[str, ConfigValue],
    filters: list[Callable[[PartitionDescription, int], bool]],
) -> list[PartitionDescription]:
    """The partitions that match any filter; all if there is none."""
    found_min_isr = configs.get("min.insync.replicas")
    min_isr = int(found_min_isr.value or 1) if found_min_isr is not None else 1
    return [part for part in found.partitions if not filters or any(fits(part, min_isr) for fits in filters)]


def _described(
    admin: Admin,
    found: TopicDescription,
    parts: list[PartitionDescription],
    configs: Mapping[str, ConfigValue],
    all_configs: bool,
) -> dict[str, Any]:
    from ...clients.admin.admin_types import EARLIEST, LATEST
    from ...protocol.model import TopicPartition

    places = [TopicPartition(found.name, part.partition) for part in parts if not part.is_unavailable]
    beginnings = admin.list_offsets(dict.fromkeys(places, EARLIEST))
    ends = admin.list_offsets(dict.fromkeys(places, LATEST))
    partitions = []
    for part in parts:
        place = TopicPartition(found.name, part.partition)
        is_known = place in places and place not in beginnings.errors and place not in ends.errors
        beginning, end = (beginnings[place].offset, ends[place].offset) if is_known else (None, None)
        partitions.append(
            {
                "partition": part.partition,
                "leader": part.leader if part.leader >= 0 else None,
                "leader_epoch": part.leader_epoch,
                "partition_epoch": part.partition_epoch,
                "replicas": list(part.replicas),
                "isr": list(part.isr),
                "elr": list(part.elr),
                "last_known_elr": list(part.last_known_elr),
                "adding_replicas": list(part.adding_replicas),
                "removing_replicas": list(part.removing_replicas),
                "offline_replicas": list(part.offline_replicas),
                "beginning": beginning,
                "end": end,
                "records": None if beginning is None or end is None else end - beginning,
            }
        )
    return {
        "topic": found.name,
        "id": found.topic_id.hex(),
        "partitions": partitions,
        "configs": {
            value.name: value.value for value in configs.values() if all_configs or not value.is_default
        },
    }


def _print_topic(facts: Mapping[str, Any]) -> None:
    rows = facts["partitions"]
    rare = [name for name in _RARE_COLUMNS if any(row[name] for row in rows)]
    print_object({"topic": facts["topic"], "id": facts["id"]}, "text")
    print_rows(rows, (*_PLACE_COLUMNS, *rare, *_OFFSET_COLUMNS), "text")
    for name, value in facts["configs"].items():
        write_line(f"{name}={value}")
    write_line("")
