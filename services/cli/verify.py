"""`headrace partition verify`: compares the replicas of partitions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import HeadraceError
from ..network_status import pieces
from .admin import open_admin, raise_first
from .common import Settings, bootstrap_option, cluster_option, config_option, form_option, reading_command
from .completion import topic_names
from .output import note, print_rows
from .progress import progress_bar, quiet_option

if TYPE_CHECKING:
    from ...clients.sync.admin_io import Admin
    from ..replica_verification_io import Place, Verdict

_COLUMNS = ("topic", "partition", "state", "replicas", "start", "end", "compared_to", "batches", "detail")


class DifferentReplicasError(HeadraceError):
    """Replicas differ, or could not be compared."""


@click.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC…]", shell_complete=topic_names)
@click.option("--include", "regex", metavar="REGEX", help="Topics that match this expression as a whole.")
@click.option("--all", "is_all", is_flag=True, help="All topics, internal ones too.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1),
    default=10.0,
    show_default=True,
    help="Seconds to wait for a replica that makes no progress.",
)
@reading_command(bootstrap_option, cluster_option, config_option, form_option, quiet_option)
def verify(
    settings: Settings, *, topics: tuple[str, ...], regex: str | None, is_all: bool, timeout_s: float
) -> None:
    """Compare the replicas of each partition, batch by batch: offsets, leader epochs and CRCs.

    Compares up to the high watermark of the leader. Exit code 1 if replicas differ, are too far behind, or
    cannot be read. Each replica compacts its log by itself: of compacted topics only batches are compared
    that all replicas have with the same number of records.
    """
    if bool(topics) + (regex is not None) + is_all != 1:
        raise click.UsageError("name topics, or give --include or --all")
    config = settings.client_config()
    with open_admin(settings, config) as admin:
        places, errors = _places(admin, topics, regex)
        addresses = {node.node_id: node.address for node in admin.describe_cluster().nodes}
    verdicts = asyncio.run(_verified(config, addresses, places, timeout_s))
    print_rows([_row(each) for each in verdicts], _COLUMNS, settings.form)
    raise_first(errors, len(errors) + len(places))
    bad = [each for each in verdicts if each.state != "equal"]
    if bad:
        raise DifferentReplicasError(
            f"{len(bad)} of {len(verdicts)} partitions are not equal on all replicas"
        )
    note(f"{len(verdicts)} partitions are equal on all replicas")


def _places(
    admin: Admin, topics: tuple[str, ...], regex: str | None
) -> tuple[list[Place], dict[str, BaseException]]:
    from ...clients.admin.admin_types import Resource
    from ...protocol.model import TopicPartition
    from ...runtime.regex import compile_regex
    from ..replica_verification_io import Place

    names = list(dict.fromkeys(topics)) or [item.name for item in admin.list_topics(internal=True)]
    if regex is not None:
        pattern = compile_regex(regex)
        names = [name for name in names if pattern.matches(name)]
    places: list[Place] = []
    errors: dict[str, BaseException] = {}
    for piece in pieces(names):
        described = admin.describe_topics(*piece)
        errors |= described.errors
        known = [name for name in piece if name not in described.errors]
        configs = admin.describe_configs(*(Resource.topic(name) for name in known)) if known else {}
        for name in known:
            policy = configs[Resource.topic(name)]["cleanup.policy"].value or ""
            places += [
                Place(
                    TopicPartition(name, part.partition),
                    described[name].topic_id,
                    part.leader,
                    part.replicas,
                    "compact" in policy,
                )
                for part in described[name].partitions
            ]
    return places, errors


async def _verified(
    config: dict[str, str], addresses: dict[int, Any], places: list[Place], timeout_s: float
) -> list[Verdict]:
    from ..node_requests_io import node_network
    from ..replica_verification_io import ReplicaVerifier

    found = []
    async with node_network(config) as network:
        verifier = ReplicaVerifier(network, addresses, timeout_s)
        with progress_bar("comparing", len(places), "partitions") as advance:
            for place in places:
                found.append(await verifier.verify(place))
                advance(1)
    return found


def _row(each: Verdict) -> dict[str, Any]:
    return {
        "topic": each.place.partition.topic,
        "partition": each.place.partition.partition,
        "state": each.state,
        "replicas": list(each.place.replicas),
        "start": each.start if each.start >= 0 else None,
        "end": each.end if each.end >= 0 else None,
        "compared_to": each.compared_to if each.compared_to >= 0 else None,
        "batches": each.batches,
        "detail": _detail(each),
    }


def _detail(each: Verdict) -> str | None:
    parts = [f"node {node}: {text}" for node, text in sorted(each.errors.items())]
    if each.mismatch is not None:
        found = ", ".join(
            f"node {node} has "
            + (
                "no batch"
                if batch is None
                else f"CRC {batch.crc:08x}, epoch {batch.leader_epoch}"
                f", {batch.records} records up to offset {batch.last_offset}"
            )
            for node, batch in sorted(each.mismatch.batches.items())
        )
        parts.append(f"at offset {each.mismatch.offset}: {found}")
    elif each.state == "lagging":
        parts.append(f"a replica has no records after offset {each.compared_to}")
    return "; ".join(parts) or None
