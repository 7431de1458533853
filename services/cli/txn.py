"""`headrace txn …`: transactions in progress, and ending hanging ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import HeadraceError, TransactionalIdNotFoundError
from ..network_status import pieces
from .admin import open_admin, places_of, raise_first
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
from .completion import node_ids, topic_names, transactional_ids
from .group import scopes_text
from .output import note, print_rows
from .progress import progress_bar, quiet_option
from .watch import watchable

if TYPE_CHECKING:
    from ...clients.admin.group_types import ProducerDescription, TransactionDescription
    from ...clients.sync.admin_io import Admin
    from ...protocol.model import TopicPartition

_LISTED = ("transactional_id", "coordinator", "producer_id", "state", "prepared", "prepared_s")
_DESCRIBED = (*_LISTED, "producer_epoch", "timeout_ms", "start", "partitions")
_PRODUCER = ("producer_id", "producer_epoch", "coordinator_epoch", "start_offset", "last_timestamp")
_PRODUCERS = ("topic", "partition", *_PRODUCER, "last_sequence")
_HANGING = ("topic", "partition", *_PRODUCER, "transactional_id")
_partitions_option = click.option(
    "-p",
    "--partition",
    "numbers",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this partition; repeatable [default: all].",
)


@click.group()
def txn() -> None:
    """Describe transactions, and abort hanging transactions."""


@txn.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="Only transactions in this state, such as Ongoing; repeatable.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    type=int,
    multiple=True,
    help="Only ids with this producer id; repeatable.",
)
@click.option(
    "--longer-than",
    metavar="PnDTnHnMnS",
    help="Only transactions that are open for longer than this, such as PT1H.",
)
@click.option(
    "--pattern", metavar="REGEX", help="Only transactional ids that match this regular expression as a whole."
)
@reading_command(bootstrap_option, cluster_option, config_option, list_form_option)
@watchable
def list_transactions(
    settings: Settings,
    *,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than: str | None,
    pattern: str | None,
) -> None:
    """List all transactional ids."""
    with open_admin(settings, settings.client_config()) as admin:
        found = admin.list_transactions(
            states=states,
            producer_ids=producer_ids,
            longer_than=None if longer_than is None else _seconds(longer_than),
            pattern=pattern,
        )
    rows = [
        {
            "transactional_id": each.transactional_id,
            "coordinator": each.coordinator,
            "producer_id": each.producer_id,
            "state": each.state.value,
            **_prepared(each.prepared_ms),
        }
        for each in found
    ]
    print_rows(rows, _LISTED, settings.form)


@txn.command()
@click.argument("names", nargs=-1, required=True, metavar="ID…", shell_complete=transactional_ids)
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def describe(settings: Settings, *, names: tuple[str, ...]) -> None:
    """Show the state and the partitions of the transactions of transactional ids."""
    with open_admin(settings, settings.client_config()) as admin:
        results = admin.describe_transactions(*dict.fromkeys(names))
    rows = [_described(results[name]) for name in results if name not in results.errors]
    if settings.is_text:
        rows = [{**row, "partitions": " ".join(row["partitions"]) or None} for row in rows]
    if rows or not settings.is_text:
        print_rows(rows, _DESCRIBED, settings.form)
    missing = {
        name: TransactionalIdNotFoundError(f"transactional id {name!r} does not exist")
        for name, error in results.errors.items()
        if isinstance(error, TransactionalIdNotFoundError)
    }
    raise_first({**results.errors, **missing}, len(results), "transactional ids")


@txn.command()
@click.argument("topic", shell_complete=topic_names)
@_partitions_option
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def producers(settings: Settings, *, topic: str, numbers: tuple[int, ...]) -> None:
    """Show the idempotent and transactional producers of TOPIC, and their open transactions."""
    with open_admin(settings, settings.client_config()) as admin:
        results = admin.describe_producers(*places_of(admin, topic, numbers))
    rows = [
        _producer(place, each)
        for place in sorted(results)
        if place not in results.errors
        for each in sorted(results[place], key=lambda producer: producer.producer_id)
    ]
    print_rows(rows, _PRODUCERS, settings.form)
    raise_first({str(place): error for place, error in results.errors.items()}, len(results), "partitions")


@txn.command("find-hanging")
@click.option("-t", "--topic", metavar="NAME", shell_complete=topic_names, help="Search this topic.")
@_partitions_option
@click.option(
    "--node",
    "node_id",
    type=click.IntRange(min=0),
    shell_complete=node_ids,
    help="Search the partitions that this node leads.",
)
@click.option("--all", "is_all", is_flag=True, help="Search all partitions.")
@click.option(
    "--max-transaction-timeout",
    "longest",
    default="PT15M",
    show_default=True,
    metavar="PnDTnHnMnS",
    help="Minimum age of a hanging transaction; at least transaction.max.timeout.ms.",
)
@reading_command(bootstrap_option, cluster_option, config_option, form_option, quiet_option)
def find_hanging(
    settings: Settings,
    *,
    topic: str | None,
    numbers: tuple[int, ...],
    node_id: int | None,
    is_all: bool,
    longest: str,
) -> None:
    """Find hanging transactions: open in a partition, but unknown to the transaction coordinator.

    They block the last stable offset, and so read_committed consumers, until `txn abort` aborts them.
    """
    if (topic is not None) + (node_id is not None) + is_all != 1 or (numbers and topic is None):
        raise click.UsageError("give --topic (and --partition), --node, or --all")
    longer_than = _seconds(longest)
    with open_admin(settings, settings.client_config()) as admin:
        places = _led(admin, node_id) if topic is None else places_of(admin, topic, numbers)
        with progress_bar(f"searching {len(places)} partitions"):
            found = admin.find_hanging_transactions(places, longer_than=longer_than)
    rows = [
        {**_producer(each.topic_partition, each.producer), "transactional_id": each.transactional_id}
        for each in found
    ]
    if rows or not settings.is_text:
        print_rows(rows, _HANGING, settings.form)
    else:
        note(f"no hanging transactions in {len(places)} partitions")


@txn.command()
@click.option(
    "-t",
    "--topic",
    metavar="NAME",
    required=True,
    shell_complete=topic_names,
    help="Topic of the transaction.",
)
@click.option(
    "-p",
    "--partition",
    "number",
    type=click.IntRange(min=0),
    required=True,
    help="Partition of the transaction.",
)
@click.option("--start-offset", type=click.IntRange(min=0), help="First offset of the transaction.")
@click.option(
    "--producer-id",
    type=click.IntRange(min=0),
    help="Producer id of the transaction, with --producer-epoch in place of --start-offset.",
)
@click.option("--producer-epoch", type=click.IntRange(min=0), help="Producer epoch of the transaction.")
@click.option(
    "--coordinator-epoch",
    type=click.IntRange(min=-1),
    help="Coordinator epoch to write to the marker [default: 0].",
)
@click.option(
    "--force",
    is_flag=True,
    help="Abort although the coordinator knows the transaction: its other partitions may commit.",
)
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@changing_command(bootstrap_option, cluster_option, config_option)
def abort(
    settings: Settings,
    *,
    topic: str,
    number: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    force: bool,
    is_sure: bool,
) -> None:
    """Abort a hanging transaction in a partition: read_committed consumers skip its records there.

    Identify it by its first offset, or by producer id and epoch, as shown by `txn find-hanging`.
    """
    from ...protocol.model import TopicPartition

    is_by_id = producer_id is not None and producer_epoch is not None
    has_ids = producer_id is not None or producer_epoch is not None or coordinator_epoch is not None
    if (start_offset is None) != is_by_id or (start_offset is not None and has_ids):
        raise click.UsageError("give --start-offset, or --producer-id and --producer-epoch")
    place = TopicPartition(topic, number)
    with open_admin(settings, settings.client_config()) as admin:
        if start_offset is not None:
            found = _starting_at(admin, place, start_offset)
            producer_id, producer_epoch = found.producer_id, found.producer_epoch
            coordinator_epoch = found.coordinator_epoch
        assert producer_id is not None, "checked above"
        assert producer_epoch is not None, "checked above"
        if not force:
            _check_unknown(admin, place, producer_id)
        if not is_sure:
            click.confirm(
                f"Abort the transaction of producer {producer_id} in {place}?", abort=True, err=True
            )
        admin.abort_transaction(place, producer_id, producer_epoch, coordinator_epoch=coordinator_epoch or 0)
    note(f"aborted the transaction of producer {producer_id} in {place}")


@txn.command("abort-prepared")
@click.argument("names", nargs=-1, required=True, metavar="ID…", shell_complete=transactional_ids)
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@changing_command(bootstrap_option, cluster_option, config_option)
def abort_prepared(settings: Settings, *, names: tuple[str, ...], is_sure: bool) -> None:
    """Abort prepared transactions whose driver is permanently gone, in all partitions.

    read_committed consumers skip their records. The driver may have decided to commit them: to end them as
    it decided, open the `Sink` of its query instead.
    """
    wanted = list(dict.fromkeys(names))
    with open_admin(settings, settings.client_config()) as admin:
        if not is_sure:
            text = f"Abort {' '.join(wanted)}, even if a driver has decided to commit?"
            click.confirm(text, abort=True, err=True)
        results = admin.abort_prepared(*wanted)
    for name in wanted:
        if name not in results.errors:
            note(f"aborted the prepared transaction of {name}")
    raise_first(results.errors, len(results), "transactional ids")


def _starting_at(admin: Admin, place: TopicPartition, start_offset: int) -> ProducerDescription:
    for producer in admin.describe_producers(place)[place]:
        if producer.transaction_start_offset == start_offset:
            return producer
    raise NotFoundError(f"no transaction with start offset {start_offset} is open in {place}")


def _check_unknown(admin: Admin, place: TopicPartition, producer_id: int) -> None:
    """Errors: HeadraceError if its coordinator will end the transaction."""
    listed = admin.list_transactions(producer_ids=(producer_id,))
    described = admin.describe_transactions(*(each.transactional_id for each in listed))
    for name in described:
        if name not in described.errors and place in described[name].partitions:
            found = described[name]
            remedy = "its coordinator will end it (--force aborts it here at once)"
            if found.prepared_ms is not None:
                remedy = "its driver will end it, or `headrace txn abort-prepared`"
            raise HeadraceError(
                f"not hanging: transactional id {name!r} is {found.state.value} in this partition; {remedy}"
            )


def _led(admin: Admin, node_id: int | None) -> list[TopicPartition]:
    """The partitions that a node leads, or with None all partitions with a leader; prints the number without
    one."""
    from ...protocol.model import TopicPartition

    found: list[TopicPartition] = []
    leaderless = 0
    for piece in pieces([item.name for item in admin.list_topics(internal=True)]):
        described = admin.describe_topics(*piece)
        for name in (name for name in piece if name not in described.errors):
            for part in described[name].partitions:
                leaderless += part.leader < 0
                if part.leader >= 0 and node_id in (None, part.leader):
                    found.append(TopicPartition(name, part.partition))
    if leaderless and node_id is None:
        note(f"{leaderless} partitions have no leader and were not searched")
    return found


def _described(found: TransactionDescription) -> dict[str, Any]:
    return {
        "transactional_id": found.transactional_id,
        "coordinator": found.coordinator,
        "producer_id": found.producer_id,
        "state": found.state.value,
        **_prepared(found.prepared_ms),
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "start": None if found.start_ms is None else _time(found.start_ms),
        "partitions": scopes_text(found.partitions),
    }


def _prepared(since_ms: int | None) -> dict[str, Any]:
    """The time of the preparation, and its age in seconds by this machine's clock."""
    if since_ms is None:
        return {"prepared": None, "prepared_s": None}
    age = datetime.now(UTC) - datetime.fromtimestamp(since_ms / 1000, UTC)
    return {"prepared": _time(since_ms), "prepared_s": int(age.total_seconds())}


def _producer(place: TopicPartition, producer: ProducerDescription) -> dict[str, Any]:
    return {
        "topic": place.topic,
        "partition": place.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "start_offset": producer.transaction_start_offset,
        "last_timestamp": _time(producer.last_timestamp_ms),
        "last_sequence": producer.last_sequence,
    }


def _time(ms: int) -> str | None:
    return None if ms < 0 else datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def _seconds(text: str) -> float:
    from ...clients.durations import duration_ms

    return duration_ms(text) / 1000
