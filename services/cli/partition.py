"""`headrace partition …`: leader elections, reassignments and moves between log dirs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import ConfigError, ElectionNotNeededError
from .admin import open_admin, places_of, raise_first
from .common import Settings, bootstrap_option, changing_command, cluster_option, config_option, form_option
from .completion import node_ids, topic_names
from .moves import await_dir_moves, await_reassignments
from .output import note, print_rows, write_line
from .progress import quiet_option
from .recover import recover
from .verify import verify

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...clients.admin.admin_types import PartitionReassignment
    from ...clients.sync.admin_io import Admin
    from ...protocol.model import TopicPartition
    from ..reassignment_plan import Plan

_MOVES = ("topic", "partition", "replicas", "adding_replicas", "removing_replicas", "isr")


@click.group()
def partition() -> None:
    """Elect and recover leaders, move partitions between nodes and log dirs, and compare their replicas."""


partition.add_command(recover)
partition.add_command(verify)


@partition.command()
@click.option(
    "--preferred", "kind", flag_value="PREFERRED", help="Elect the preferred leader, if it is in sync."
)
@click.option(
    "--unclean",
    "kind",
    flag_value="UNCLEAN",
    help="Elect any live replica, for partitions without a leader; may lose records.",
)
@click.option("-t", "--topic", metavar="NAME", shell_complete=topic_names, help="Topic of the partitions.")
@click.option(
    "-p",
    "--partition",
    "numbers",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this partition; repeatable [default: all partitions of the topic].",
)
@click.option("--all", "is_all", is_flag=True, help="Elect leaders of all partitions of all topics.")
@click.option(
    "--from-file",
    "path",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Partitions in the JSON of kafka-leader-election.sh.",
)
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation of --unclean.")
@changing_command(bootstrap_option, cluster_option, config_option, form_option)
def elect(
    settings: Settings,
    *,
    kind: str | None,
    topic: str | None,
    numbers: tuple[int, ...],
    is_all: bool,
    path: Path | None,
    is_sure: bool,
) -> None:
    """Elect leaders of partitions: the preferred leader, or with --unclean any live replica."""
    from ...clients.admin.admin_types import ElectionType

    if kind is None:
        raise click.UsageError("give --preferred or --unclean")
    if (topic is not None) + is_all + (path is not None) != 1 or (numbers and topic is None):
        raise click.UsageError("give --topic (and --partition), --from-file, or --all")
    listed = None if path is None else _read_places(path)
    if kind == "UNCLEAN" and not is_sure:
        click.confirm(
            "Elect out-of-sync leaders? Records that they do not have are lost.", abort=True, err=True
        )
    with open_admin(settings, settings.client_config()) as admin:
        places = listed if topic is None else places_of(admin, topic, numbers)
        results = admin.elect_leaders(ElectionType[kind], places)
    not_needed = [place for place, e in results.errors.items() if isinstance(e, ElectionNotNeededError)]
    errors = {_name(place): e for place, e in results.errors.items() if place not in not_needed}
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "result": "not needed" if place in not_needed else "elected",
        }
        for place in sorted(results)
        if _name(place) not in errors
    ]
    if rows or not settings.is_text:
        print_rows(rows, ("topic", "partition", "result"), settings.form)
    elif not errors:
        note("no partition needs an election")
    raise_first(errors, len(results), "elections")


@partition.command()
@click.option(
    "--generate", "step", flag_value="generate", help="Print a plan that spreads --topic over --nodes."
)
@click.option("--execute", "executed", metavar="PLAN", help="Start the reassignments of PLAN.")
@click.option(
    "--verify",
    "verified",
    metavar="PLAN",
    help="Check whether PLAN is complete, and remove its throttles if it is.",
)
@click.option(
    "--cancel", "cancelled", metavar="PLAN", help="Cancel the reassignments of PLAN that are in progress."
)
@click.option("--list", "step", flag_value="list", help="List the reassignments in progress.")
@click.option(
    "-t",
    "--topic",
    "topics",
    metavar="NAME",
    multiple=True,
    shell_complete=topic_names,
    help="Topic to move; repeatable.",
)
@click.option("--nodes", metavar="ID,…", help="Target nodes [default: all active nodes].")
@click.option(
    "-r",
    "--replication-factor",
    "factor",
    type=click.IntRange(min=1),
    help="New replication factor [default: unchanged].",
)
@click.option("--disable-rack-aware", is_flag=True, help="Let --generate ignore the racks of nodes.")
@click.option(
    "--throttle",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="Limit of each node for the replication of the moved replicas, in bytes per second.",
)
@click.option(
    "--wait",
    "is_waiting",
    is_flag=True,
    help="With --execute and --verify: wait until the moves are complete.",
)
@changing_command(bootstrap_option, cluster_option, config_option, form_option, quiet_option)
def reassign(
    settings: Settings,
    *,
    step: str | None,
    topics: tuple[str, ...],
    nodes: str | None,
    factor: int | None,
    disable_rack_aware: bool,
    throttle: int | None,
    is_waiting: bool,
    **plans: str | None,
) -> None:
    """Move partitions to other nodes, as PLAN says: the name of a file, or its JSON.

    `--generate -t NAME > plan.json`, then `--execute plan.json`, which prints the plan that reverts it, and
    `--verify plan.json` until it is complete (exit code 1 until then), or either of them with --wait.
    """
    executed, verified = plans["executed"], plans["verified"]
    steps = [name for name in (step, *plans.values()) if name is not None]
    if len(steps) != 1:
        raise click.UsageError("give one of --generate, --execute, --verify, --cancel, --list")
    if step != "generate" and (topics or nodes or factor or disable_rack_aware):
        raise click.UsageError("--topic, --nodes, -r and --disable-rack-aware belong to --generate")
    if throttle and executed is None:
        raise click.UsageError("--throttle belongs to --execute")
    if is_waiting and executed is None and verified is None:
        raise click.UsageError("--wait belongs to --execute and --verify")
    if step == "generate" and not topics:
        raise click.UsageError("--generate needs --topic")
    from ..replication_throttle import clear_throttle

    plan = None if step else _read_plan(steps[0])
    with open_admin(settings, settings.client_config()) as admin:
        if step == "list":
            _list(admin, settings)
        elif plan is None:
            _generate(admin, topics, _node_ids(nodes), factor, has_racks=not disable_rack_aware)
        elif executed is not None:
            _execute(admin, plan, throttle)
            if is_waiting:
                await_reassignments(admin, plan)
                clear_throttle(admin, _topics(plan))
                note(f"{len(plan)} partitions have moved")
        elif verified is not None:
            if is_waiting:
                await_reassignments(admin, plan)
            _verify(admin, settings, plan)
        else:
            _cancel(admin, plan)


@partition.command("move-dir")
@click.argument("log_dir", metavar="DIR")
@click.option(
    "--node",
    "node_id",
    type=click.IntRange(min=0),
    required=True,
    shell_complete=node_ids,
    help="Storage node that has DIR.",
)
@click.option(
    "-t",
    "--topic",
    metavar="NAME",
    required=True,
    shell_complete=topic_names,
    help="Topic of the replicas.",
)
@click.option(
    "-p",
    "--partition",
    "numbers",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this partition; repeatable [default: all replicas of the topic on the node].",
)
@click.option("--wait", "is_waiting", is_flag=True, help="Wait until the replicas are in DIR.")
@changing_command(bootstrap_option, cluster_option, config_option, form_option, quiet_option)
def move_dir(
    settings: Settings,
    *,
    log_dir: str,
    node_id: int,
    topic: str,
    numbers: tuple[int, ...],
    is_waiting: bool,
) -> None:
    """Move replicas to log dir DIR of their node; `headrace log dirs --topic` shows the progress.

    Naming the current dir of a replica cancels its move.
    """
    from ...clients.admin.admin_types import TopicPartitionReplica

    with open_admin(settings, settings.client_config()) as admin:
        chosen = numbers or [
            part.partition
            for part in admin.describe_topics(topic)[topic].partitions
            if node_id in part.replicas
        ]
        moves = {TopicPartitionReplica(topic, number, node_id): log_dir for number in chosen}
        results = admin.alter_replica_log_dirs(moves)
        if is_waiting:
            begun = {each: path for each, path in moves.items() if each not in results.errors}
            await_dir_moves(admin, begun)
    rows = [
        {"topic": topic, "partition": each.partition, "node": node_id, "log_dir": log_dir}
        for each in results
        if each not in results.errors
    ]
    if rows or not settings.is_text:
        print_rows(rows, ("topic", "partition", "node", "log_dir"), settings.form)
    errors = {f"{topic}-{each.partition}": error for each, error in results.errors.items()}
    raise_first(errors, len(results), "moves")


def _list(admin: Admin, settings: Settings) -> None:
    ongoing = admin.list_partition_reassignments()
    print_rows([_row(place, move) for place, move in sorted(ongoing.items())], _MOVES, settings.form)


def _generate(
    admin: Admin, topics: Sequence[str], nodes: Sequence[int], factor: int | None, *, has_racks: bool
) -> None:
    from ...clients.admin.admin_types import NodeState
    from ..reassignment_plan import generate, text_of_plan

    known = {node.node_id: node for node in admin.describe_cluster(include_fenced=True).nodes}
    unknown = [node_id for node_id in nodes if node_id not in known]
    if unknown:
        raise ConfigError(f"node {unknown[0]} is not registered")
    chosen = nodes or [n for n, node in known.items() if node.state is NodeState.ACTIVE]
    racks = {node_id: known[node_id].rack if has_racks else None for node_id in chosen}
    current = {place: found.target for place, found in _assigned(admin, topics).items()}
    write_line(text_of_plan(generate(current, racks, factor)))


def _execute(admin: Admin, plan: Plan, throttle: int | None) -> None:
    from ..reassignment_plan import text_of_plan
    from ..replication_throttle import throttling

    assigned = _assigned(admin, _topics(plan))
    missing = [place for place in plan if place not in assigned]
    if missing:
        raise ConfigError(f"partition {_name(missing[0])} does not exist")
    current = {place: assigned[place].target for place in plan}
    if throttle is not None:
        admin.alter_configs(throttling(plan, current, throttle)).raise_for_errors()
    results = admin.alter_partition_reassignments(plan)
    begun = {place: current[place] for place in results if place not in results.errors}
    if begun:
        write_line(text_of_plan(begun))
        note(f"{len(begun)} partitions are moving; the plan above reverts the move")
    raise_first(_named(results.errors), len(results), "partitions")


def _verify(admin: Admin, settings: Settings, plan: Plan) -> None:
    from ..replication_throttle import clear_throttle

    assigned = _assigned(admin, _topics(plan))
    rows = []
    for place, target in sorted(plan.items()):
        found = assigned.get(place)
        state = "unknown partition"
        if found is not None:
            is_moving = bool(found.adding_replicas or found.removing_replicas)
            state = "moving" if is_moving else "done" if found.replicas == target else "differs"
        replicas = None if found is None else list(found.replicas)
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "state": state,
                "replicas": replicas,
                "target": list(target),
            }
        )
    print_rows(rows, ("topic", "partition", "state", "replicas", "target"), settings.form)
    if all(row["state"] == "done" for row in rows):
        clear_throttle(admin, _topics(plan))
    else:
        click.get_current_context().exit(1)


def _cancel(admin: Admin, plan: Plan) -> None:
    from ..replication_throttle import clear_throttle

    results = admin.alter_partition_reassignments(dict.fromkeys(plan))
    done = len(results) - len(results.errors)
    if done:
        clear_throttle(admin, _topics(plan))
        note(f"cancelled {done} of {len(results)}")
    raise_first(_named(results.errors), len(results), "partitions")


def _assigned(admin: Admin, topics: Sequence[str]) -> dict[TopicPartition, PartitionReassignment]:
    """Current assignments of the topics' partitions. Errors: UnknownTopicOrPartitionError."""
    from ...clients.admin.admin_types import PartitionReassignment
    from ...protocol.model import TopicPartition

    described = admin.describe_topics(*dict.fromkeys(topics))
    raise_first(described.errors, len(described))
    return {
        TopicPartition(name, part.partition): PartitionReassignment(
            part.replicas, part.adding_replicas, part.removing_replicas, part.isr
        )
        for name, found in described.items()
        for part in found.partitions
    }


def _read_places(path: Path) -> list[TopicPartition]:
    from ..reassignment_plan import MAX_PLAN_BYTES, places_of_json

    if path.stat().st_size > MAX_PLAN_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_PLAN_BYTES} bytes")
    try:
        return places_of_json(path.read_text(encoding="utf-8"))
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _read_plan(text: str) -> Plan:
    from ..reassignment_plan import MAX_PLAN_BYTES, plan_of

    if text.lstrip().startswith("{"):
        return plan_of(text)
    path = Path(text)
    if path.stat().st_size > MAX_PLAN_BYTES:
        raise ConfigError(f"{text} is larger than {MAX_PLAN_BYTES} bytes")
    return plan_of(path.read_text())


def _node_ids(text: str | None) -> list[int]:
    if text is None:
        return []
    try:
        return sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise click.UsageError(f"--nodes must be node ids separated by commas, not {text!r}") from None


def _topics(plan: Plan) -> list[str]:
    return list(dict.fromkeys(place.topic for place in plan))


def _row(place: TopicPartition, move: PartitionReassignment) -> dict[str, Any]:
    return {
        "topic": place.topic,
        "partition": place.partition,
        "replicas": list(move.replicas),
        "adding_replicas": list(move.adding_replicas),
        "removing_replicas": list(move.removing_replicas),
        "isr": list(move.isr),
    }


def _name(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"


def _named(errors: Mapping[TopicPartition, BaseException]) -> dict[str, BaseException]:
    return {_name(place): error for place, error in errors.items()}
