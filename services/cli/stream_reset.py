"""`headrace stream reset`: start an application again from its input topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import ConfigError, GroupIdNotFoundError, NonEmptyGroupError
from ..group_reset import Rule, scope_of
from .admin import open_admin, raise_first
from .common import Settings, bootstrap_option, changing_command, cluster_option, config_option, form_option
from .completion import group_names, topic_names
from .group_reset import (
    bounds_of,
    commit_moves,
    moves_of,
    offsets_of_file,
    places_to_reset,
    print_moves,
    reset_rules,
    rule_of,
)
from .output import note

if TYPE_CHECKING:
    from ...clients.sync.admin_io import Admin
    from ...protocol.model import TopicPartition


@click.command()
@click.argument("application_id", metavar="ID", shell_complete=group_names)
@click.option(
    "-t",
    "--input-topic",
    "topics",
    multiple=True,
    metavar="T[:P,…]",
    shell_complete=topic_names,
    help="Input topic whose offsets are reset; repeatable.",
)
@click.option(
    "--internal-topic",
    "internal",
    multiple=True,
    metavar="T",
    shell_complete=topic_names,
    help="Internal topic to delete; repeatable [default: all internal topics of the application].",
)
@reset_rules
@click.option("--force", is_flag=True, help="Remove remaining members from the group.")
@click.option("--execute", is_flag=True, help="Make the changes; without it the plan is only printed.")
@changing_command(bootstrap_option, cluster_option, config_option, form_option)
def reset(
    settings: Settings,
    *,
    application_id: str,
    topics: tuple[str, ...],
    internal: tuple[str, ...],
    force: bool,
    execute: bool,
    **rules: Any,
) -> None:
    """Reset application ID, so that it processes its input topics again.

    Resets its committed offsets, and deletes its internal topics. All instances must be stopped.
    The offsets of the input topics are reset to the beginning, or by the given --to-… rule. The stores on
    disk are not deleted: call `App.clean_up()`, or delete the state.dir of each instance. Without --execute
    the plan is printed, and nothing is changed.
    """
    if not any(value is not None and value is not False for value in rules.values()):
        rules["to_earliest"] = True
    rule, value = rule_of(rules)
    with open_admin(settings, settings.client_config()) as admin:
        _check_stopped(admin, application_id, is_forced=force, executes=execute)
        doomed = _internal_topics(admin, application_id, topics, internal)
        given = offsets_of_file(value, application_id) if rule is Rule.FILE else {}
        places = places_to_reset(admin, application_id, topics) if topics else list(given)
        _check_file(rule, places, given)
        bounds = bounds_of(admin, application_id, places, value if rule is Rule.TIME else None)
        moves = moves_of(rule, value, bounds, given)
        print_moves(settings, application_id, moves, False)
        for name in doomed:
            note(f"internal topic {name} {'is' if execute else 'would be'} deleted")
        if not execute:
            note("nothing was changed: --execute resets the application")
            return
        # Order: an interruption between the two leaves old internal topics, which a second call deletes
        errors = commit_moves(admin, application_id, moves, is_new=True) if moves else {}
        raise_first(errors, len(moves), "partitions")
        if doomed:
            raise_first(admin.delete_topics(*doomed).errors, len(doomed), "topics")


def _check_stopped(admin: Admin, application_id: str, *, is_forced: bool, executes: bool) -> None:
    """Errors: NonEmptyGroupError while an instance runs."""
    results = admin.describe_groups(application_id)
    if isinstance(results.errors.get(application_id), GroupIdNotFoundError):
        return
    members = results[application_id].members
    if not members:
        return
    if not is_forced:
        raise NonEmptyGroupError(
            f"application {application_id!r} has {len(members)} running threads: stop its instances, or"
            " remove members that are dead with --force"
        )
    if executes:
        admin.remove_members(application_id)


def _check_file(rule: Rule, places: list[TopicPartition], given: dict[TopicPartition, int]) -> None:
    """Errors: ConfigError if the file has no offset for a partition of the input topics, or one of others."""
    if rule is not Rule.FILE:
        return
    unknown = sorted(set(given) ^ set(places))
    if unknown:
        where = "is not of the input topics" if unknown[0] in given else "of the input topics is missing"
        raise ConfigError(f"--from-file: {unknown[0]} {where}")


def _internal_topics(
    admin: Admin, application_id: str, inputs: tuple[str, ...], chosen: tuple[str, ...]
) -> list[str]:
    """The internal topics to delete; an input topic is none, whatever its name.

    Errors: ConfigError for one that is none of the application.
    """
    from ...protocol.application_topics import is_internal_topic

    kept = {scope_of(text)[0] for text in inputs}
    found = [
        topic.name
        for topic in admin.list_topics(internal=True)
        if is_internal_topic(topic.name, application_id) and topic.name not in kept
    ]
    unknown = sorted(set(chosen) - set(found))
    if unknown:
        raise ConfigError(f"{unknown[0]!r} is no internal topic of application {application_id!r}")
    return sorted(set(chosen) or found)
