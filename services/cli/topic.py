"""`headrace topic …`: create, list, describe, alter, grow and delete topics."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from .common import (
    PartialFailureError,
    Settings,
    bootstrap_option,
    client_defaults,
    cluster_option,
    config_option,
    form_option,
    with_settings,
)
from .output import note, print_object, print_rows, write_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...clients.admin.admin_types import ConfigValue, TopicDescription
    from ...clients.sync.admin_io import Admin

_PARTITION_COLUMNS = ("partition", "leader", "leader_epoch", "replicas", "isr", "beginning", "end", "records")


@click.group()
def topic() -> None:
    """Create, look at, change and delete topics."""


@topic.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="Partitions [default: the cluster's].")
@click.option("-r", "--replication-factor", type=click.IntRange(min=1), help="Replicas of each partition.")
@click.option("--dry-run", is_flag=True, help="Only check.")
@with_settings(bootstrap_option, cluster_option, config_option, form_option)
def create(
    settings: Settings,
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    dry_run: bool,
) -> None:
    """Create topics; -X sets their configs."""
    from ...clients.admin.admin_types import NewTopic

    topics = [NewTopic(name, partitions, replication_factor, settings.config) for name in names]
    with _admin(settings, client_defaults()) as admin:
        results = admin.create_topics(*topics, validate_only=dry_run)
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
        if rows or settings.form == "json":
            print_rows(rows, ("topic", "partitions", "replication_factor", "id"), settings.form)
        _raise_first(results.errors, len(names))


@topic.command("list")
@click.option("--internal", is_flag=True, help="Internal topics as well.")
@with_settings(bootstrap_option, cluster_option, config_option, form_option)
def list_topics(settings: Settings, *, internal: bool) -> None:
    """List all topics."""
    with _admin(settings, settings.client_config()) as admin:
        rows = [
            {"topic": item.name, "partitions": item.partitions, "id": item.topic_id.hex()}
            for item in admin.list_topics(internal=internal)
        ]
    print_rows(rows, ("topic", "partitions", "id"), settings.form)


@topic.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.option("--all-configs", is_flag=True, help="Defaults as well.")
@with_settings(bootstrap_option, cluster_option, config_option, form_option)
def describe(settings: Settings, *, names: tuple[str, ...], all_configs: bool) -> None:
    """Show partitions, leaders, offsets and configs of topics."""
    from ...clients.admin.admin_types import Resource

    with _admin(settings, settings.client_config()) as admin:
        found = admin.describe_topics(*dict.fromkeys(names))
        known = [name for name in found if name not in found.errors]
        configs = admin.describe_configs(*(Resource.topic(name) for name in known))
        described = [
            _described(admin, found[name], configs[Resource.topic(name)], all_configs) for name in known
        ]
        if settings.form == "text":
            for facts in described:
                _print_topic(facts)
        else:
            print_rows(described, (), settings.form)
        _raise_first(found.errors, len(found))


@topic.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.option("-d", "--delete", "deleted", multiple=True, metavar="KEY", help="Back to its default.")
@click.option("--dry-run", is_flag=True, help="Only check.")
@with_settings(bootstrap_option, cluster_option, config_option)
def alter(settings: Settings, *, names: tuple[str, ...], deleted: tuple[str, ...], dry_run: bool) -> None:
    """Change configs of topics: -X sets, -d deletes."""
    from ...clients.admin.admin_types import Resource

    changes: dict[str, Any] = {**settings.config, **dict.fromkeys(deleted)}
    if not changes:
        raise click.UsageError("nothing to change: give -X KEY=VALUE or -d KEY")
    with _admin(settings, client_defaults()) as admin:
        wanted: dict[Resource | str, dict[str, Any]] = {Resource.topic(name): changes for name in names}
        results = admin.alter_configs(wanted, validate_only=dry_run)
        done = [resource.name for resource in results if resource not in results.errors]
        if done:
            note(f"{'could change' if dry_run else 'changed'} {', '.join(done)}")
        _raise_first({resource.name: error for resource, error in results.errors.items()}, len(results))


@topic.command("add-partitions")
@click.argument("name")
@click.argument("total", type=click.IntRange(min=1))
@click.option("--dry-run", is_flag=True, help="Only check.")
@with_settings(bootstrap_option, cluster_option, config_option)
def add_partitions(settings: Settings, *, name: str, total: int, dry_run: bool) -> None:
    """Grow topic NAME to TOTAL partitions. Records stay where they are; keys may move from then on."""
    with _admin(settings, settings.client_config()) as admin:
        results = admin.create_partitions({name: total}, validate_only=dry_run)
        _raise_first(results.errors, 1)
    note(f"topic {name!r} {'could have' if dry_run else 'has'} {total} partitions")


@topic.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@with_settings(bootstrap_option, cluster_option, config_option)
def delete(settings: Settings, *, names: tuple[str, ...], is_sure: bool) -> None:
    """Delete topics and all their records."""
    if not is_sure:
        click.confirm(f"Delete {', '.join(names)} and every record?", abort=True, err=True)
    with _admin(settings, settings.client_config()) as admin:
        results = admin.delete_topics(*dict.fromkeys(names))
        gone = [name for name in results if name not in results.errors]
        if gone:
            note(f"deleted {', '.join(gone)}")
        _raise_first(results.errors, len(results))


@contextmanager
def _admin(settings: Settings, config: Mapping[str, str]) -> Iterator[Admin]:
    from ...clients.sync.admin_io import Admin

    with Admin(settings.addresses(), config=config) as admin:
        yield admin


def _raise_first(errors: Mapping[str, BaseException], total: int) -> None:
    """Nothing when all went well; the error when all failed; else say each, and that it was partly done."""
    if not errors:
        return
    name, error = next(iter(errors.items()))
    if len(errors) == total:
        for other, trouble in list(errors.items())[1:]:
            note(f"headrace: {other}: {trouble}")
        raise error
    for other, trouble in errors.items():
        note(f"headrace: {other}: {trouble}")
    raise PartialFailureError(f"{len(errors)} of {total} topics failed, first {name!r}")


def _described(
    admin: Admin, found: TopicDescription, configs: Mapping[str, ConfigValue], all_configs: bool
) -> dict[str, Any]:
    from ...clients.admin.admin_types import EARLIEST, LATEST
    from ...protocol.model import TopicPartition

    places = [TopicPartition(found.name, part.partition) for part in found.partitions if part.leader >= 0]
    beginnings = admin.list_offsets(dict.fromkeys(places, EARLIEST))
    ends = admin.list_offsets(dict.fromkeys(places, LATEST))
    partitions = []
    for part in found.partitions:
        place = TopicPartition(found.name, part.partition)
        is_known = place in places and place not in beginnings.errors and place not in ends.errors
        beginning, end = (beginnings[place].offset, ends[place].offset) if is_known else (None, None)
        partitions.append(
            {
                "partition": part.partition,
                "leader": part.leader if part.leader >= 0 else None,
                "leader_epoch": part.leader_epoch,
                "replicas": list(part.replicas),
                "isr": list(part.isr),
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
    print_object({"topic": facts["topic"], "id": facts["id"]}, "text")
    print_rows(facts["partitions"], _PARTITION_COLUMNS, "text")
    for name, value in facts["configs"].items():
        write_line(f"{name}={value}")
    write_line("")
