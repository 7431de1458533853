"""`headrace partition recover`: elect leaders of partitions whose in-sync replicas are gone."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import ConfigError, ElectionNotNeededError, HeadraceError
from . import completion
from .admin import open_admin, places_of, raise_first
from .common import (
    PartialFailureError,
    Settings,
    bootstrap_option,
    changing_command,
    cluster_option,
    config_option,
    form_option,
)
from .output import note, print_object, print_rows, size_text, write_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...clients.admin.admin_types import PartitionDescription
    from ...clients.sync.admin_io import Admin
    from ...protocol.model import TopicPartition

_COLUMNS = (
    *("node", "state", "end", "high_watermark", "epoch", "last_record", "size"),
    *("diverges_at", "lost", "lost_committed", "recommended"),
)


@click.command()
@click.option(
    "-t",
    "--topic",
    metavar="NAME",
    shell_complete=completion.topic_names,
    help="Topic [default: all topics].",
)
@click.option(
    "-p",
    "--partition",
    "numbers",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this partition; repeatable [default: all partitions without a leader].",
)
@click.option(
    "--elect",
    "chosen",
    type=click.IntRange(min=0),
    metavar="NODE",
    shell_complete=completion.node_ids,
    help="Elect this replica in place of the recommended one.",
)
@click.option("--yes", "is_sure", is_flag=True, help="Elect without a question.")
@click.option("--dry-run", "is_shown", is_flag=True, help="Only show what would be lost.")
@changing_command(bootstrap_option, cluster_option, config_option, form_option)
def recover(
    settings: Settings,
    *,
    topic: str | None,
    numbers: tuple[int, ...],
    chosen: int | None,
    is_sure: bool,
    is_shown: bool,
) -> None:
    """Elect leaders of partitions without one, after showing what each replica would lose; with -o json it
    elects only with --yes.

    Each live replica is asked for its log. LOST are the offsets that another replica has and that would be
    gone, LOST-COMMITTED those of them that consumers may have read. Silent replicas may have more.
    """
    if numbers and topic is None:
        raise click.UsageError("--partition needs --topic")
    if is_shown and (is_sure or chosen is not None):
        raise click.UsageError("--dry-run excludes --yes and --elect")
    with open_admin(settings, settings.client_config()) as admin:
        reports = _reports(admin, _offline(admin, topic, numbers))
        if settings.is_text:
            for report in reports:
                report.show()
        else:
            print_object({"partitions": [each.facts() for each in reports]}, settings.form)
            if not is_sure:
                return
        if not reports:
            note("every partition has a leader")
        elif not is_shown:
            _elect(admin, reports, chosen, is_sure=is_sure)


class ReplicasChangedError(HeadraceError):
    """An election would lose something else than was shown."""


class Report:
    """One partition without a leader, and its replicas."""

    def __init__(self, part: PartitionDescription, states: dict[int, str], logs: dict[int, Any]) -> None:
        """`logs`: the replicas that answered, or the error of a node."""
        from ...protocol.model import TopicPartition
        from ..balance.lost_records import ReplicaLog, best, verdicts

        self.place = TopicPartition(part.topic, part.partition)
        self._part, self._states, self._logs = part, states, logs
        known = [
            ReplicaLog(
                node_id,
                found.log_start_offset,
                found.log_end_offset,
                found.high_watermark,
                found.epochs,
                found.size_bytes,
                found.last_timestamp_ms,
            )
            for node_id, found in sorted(logs.items())
            if not isinstance(found, str)
        ]
        self.verdicts = {each.log.node_id: each for each in verdicts(known)}
        self.electable = [n for n in self.verdicts if states.get(n) == "active"]
        recommended = best(self.verdicts[n] for n in self.electable)
        self.recommended = None if recommended is None else recommended.log.node_id

    @property
    def silent(self) -> tuple[int, ...]:
        """The replicas that did not describe their log."""
        return tuple(n for n in self._part.replicas if n not in self.verdicts)

    def facts(self) -> dict[str, Any]:
        """Everything, JSON-able."""
        part = self._part
        return {
            "topic": part.topic,
            "partition": part.partition,
            "leader_epoch": part.leader_epoch,
            "isr": list(part.isr),
            "elr": list(part.elr),
            "last_known_leader": list(part.last_known_elr),
            "recommended": self.recommended,
            "silent": list(self.silent),
            "replicas": [self._row(node_id) for node_id in part.replicas],
        }

    def show(self) -> None:
        """A table for people."""
        part = self._part
        write_line(
            f"{self.place}: no leader since epoch {part.leader_epoch}; ISR {list(part.isr)}, ELR"
            f" {list(part.elr)}, last known leader {list(part.last_known_elr)}"
        )
        rows = [self._row(node_id) for node_id in part.replicas]
        for row in rows:
            row["last_record"] = _time_text(row["last_timestamp_ms"])
            row["size"] = None if row["size_bytes"] is None else size_text(row["size_bytes"])
        print_rows(rows, _COLUMNS, "text")
        for node_id in self.silent:
            why = self._logs.get(node_id, f"it is {self._states.get(node_id, 'not registered')}")
            write_line(f"node {node_id} is silent ({why}): what only it has is lost{self._merit(node_id)}")
        write_line("")

    def cost(self, node_id: int) -> str:
        """What electing the replica loses, in a sentence."""
        found = self.verdicts[node_id]
        text = f"loses {found.lost} records that other replicas have"
        if found.lost_committed:
            text += f", at least {found.lost_committed} of them committed"
        return text + (f", and what only {_nodes(self.silent)} may have" if self.silent else "")

    def loses_the_same(self, other: Report, node_id: int) -> bool:
        """Whether the election of the replica costs what another report of the partition says."""
        return (self.verdicts.get(node_id), self.silent) == (other.verdicts.get(node_id), other.silent)

    def _merit(self, node_id: int) -> str:
        part = self._part
        if node_id in (*part.isr, *part.elr):
            return ". It has every acknowledged record: once it runs again, nothing is lost"
        return "; it was the last leader" if node_id in part.last_known_elr else ""

    def _row(self, node_id: int) -> dict[str, Any]:
        found = self.verdicts.get(node_id)
        row = {"node": node_id, "state": self._states.get(node_id, "unregistered")}
        log = None if found is None else found.log
        return {
            **row,
            "start": None if log is None else log.log_start_offset,
            "end": None if log is None else log.log_end_offset,
            "high_watermark": None if log is None else log.high_watermark,
            "epoch": None if log is None else log.latest_epoch,
            "last_timestamp_ms": None if log is None else log.last_timestamp_ms,
            "size_bytes": None if log is None else log.size_bytes,
            "diverges_at": None if found is None else found.diverges_at,
            "lost": None if found is None else found.lost,
            "lost_committed": None if found is None else found.lost_committed,
            "recommended": node_id == self.recommended,
        }


def _offline(admin: Admin, topic: str | None, numbers: Sequence[int]) -> list[PartitionDescription]:
    """The partitions without a leader. Errors: ConfigError for a named one that has a leader."""
    from ..balance.facts_io import describe_all, place_of

    if topic is None:
        return [part for part in describe_all(admin) if part.is_unavailable]
    wanted = places_of(admin, topic, numbers)
    parts = {place_of(part): part for part in admin.describe_topics(topic)[topic].partitions}
    missing = [place for place in wanted if place not in parts]
    if missing:
        raise ConfigError(f"partition {missing[0]} does not exist")
    led = [place for place in wanted if not parts[place].is_unavailable]
    if led and numbers:
        raise ConfigError(f"{led[0]} has a leader, node {parts[led[0]].leader}: nothing to recover")
    return [parts[place] for place in wanted if parts[place].is_unavailable]


def _reports(admin: Admin, parts: Sequence[PartitionDescription]) -> list[Report]:
    """Ask every live node that has one of the replicas."""
    from ..balance.facts_io import place_of

    states = {n.node_id: n.state.value for n in admin.describe_cluster(include_fenced=True).nodes}
    asked = sorted({n for part in parts for n in part.replicas if states.get(n, "fenced") != "fenced"})
    found = admin.describe_replicas(asked, partitions=[place_of(part) for part in parts]) if asked else {}
    reports = []
    for part in parts:
        logs: dict[int, Any] = {}
        for node_id in set(asked).intersection(part.replicas):
            try:
                replica = found[node_id].replicas.get(place_of(part))
            except HeadraceError as error:
                logs[node_id] = f"it does not answer: {error}"
                continue
            if replica is None:
                logs[node_id] = "it has no such log"
            else:
                logs[node_id] = replica if replica.error is None else str(replica.error)
        reports.append(Report(part, states, logs))
    return reports


def _elect(admin: Admin, reports: Sequence[Report], chosen: int | None, *, is_sure: bool) -> None:
    """Ask for each partition, then elect. Errors: those of the elections; PartialFailureError if some
    partition has no replica that could lead."""
    agreed: dict[TopicPartition, int] = {}
    hopeless = []
    for report in reports:
        node_id = report.recommended if chosen is None else chosen
        if node_id is None:
            hopeless.append(report.place)
            note(f"{report.place}: no replica is live; start one of {_nodes(report.silent)}")
        elif node_id not in report.electable:
            raise ConfigError(f"{report.place}: node {node_id} has no live replica: {report.electable}")
        elif is_sure or click.confirm(
            f"{report.place}: electing node {node_id} {report.cost(node_id)}. Elect it?", err=True
        ):
            agreed[report.place] = node_id
    _elect_agreed(admin, agreed, {report.place: report for report in reports}, is_sure=is_sure)
    if hopeless:
        raise PartialFailureError(f"{len(hopeless)} of {len(reports)} partitions still have no leader")
    if not agreed:
        raise click.Abort


def _elect_agreed(
    admin: Admin,
    agreed: Mapping[TopicPartition, int],
    shown: Mapping[TopicPartition, Report],
    *,
    is_sure: bool,
) -> None:
    """Errors: those of the elections; ReplicasChangedError."""
    from ...clients.admin.admin_types import ElectionType

    errors: dict[str, BaseException] = {}
    for node_id in sorted(set(agreed.values())):
        places = [place for place, elected in agreed.items() if elected == node_id]
        if not is_sure:
            places = _unchanged(admin, places, node_id, shown, errors)
        results = admin.elect_leaders(ElectionType.UNCLEAN, places, node_id=node_id) if places else {}
        for place in places:
            try:
                results[place]
            except ElectionNotNeededError as error:
                note(f"{place}: it has a leader again, and nothing was elected: {error}")
            except HeadraceError as error:
                errors[str(place)] = error
            else:
                note(f"{place}: node {node_id} leads; the election {shown[place].cost(node_id)}")
    raise_first(errors, len(agreed), "elections")


def _unchanged(
    admin: Admin,
    places: Sequence[TopicPartition],
    node_id: int,
    shown: Mapping[TopicPartition, Report],
    errors: dict[str, BaseException],
) -> list[TopicPartition]:
    """The partitions whose loss is still the one that the operator has agreed to; `errors` gets the others.
    Partitions with a leader are left to the controller, which refuses the election."""
    topics = admin.describe_topics(*{place.topic for place in places})
    parts = [
        part
        for name in topics
        if name not in topics.errors
        for part in topics[name].partitions
        if part.is_unavailable
    ]
    now = {report.place: report for report in _reports(admin, parts)}
    for place in places:
        found = now.get(place)
        if found is not None and not found.loses_the_same(shown[place], node_id):
            errors[str(place)] = ReplicasChangedError(
                "its replicas have changed since they were shown, nothing was elected: repeat the command"
            )
    return [place for place in places if str(place) not in errors]


def _nodes(node_ids: Iterable[int]) -> str:
    named = list(node_ids)
    return f"node {named[0]}" if len(named) == 1 else f"nodes {', '.join(map(str, named))}"


def _time_text(timestamp_ms: int | None) -> str | None:
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC)
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
