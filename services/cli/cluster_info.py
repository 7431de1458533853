"""`headrace cluster …`: the id, the endpoints and the apis of a cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import KafkaError
from .admin import open_admin, raise_first
from .common import Settings, bootstrap_option, cluster_option, config_option, form_option, reading_command
from .completion import node_ids
from .output import print_object, print_rows, write_line
from .watch import watchable

if TYPE_CHECKING:
    from ...clients.admin.admin_types import QuorumReplicaInfo
    from ...clients.cluster.network import Address
    from ...protocol.messages.envelope import ApiVersionRange

_ENDPOINTS = ("id", "role", "host", "port", "rack", "state")
_APIS = ("node", "api", "key", "min_version", "max_version", "usable")
_TIMEOUT_MS = 5_000


@click.group()
def cluster() -> None:
    """Show the id, the endpoints and the apis of a cluster."""


@cluster.command("id")
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
def show_id(settings: Settings) -> None:
    """Print the id of the cluster."""
    with open_admin(settings, settings.client_config()) as admin:
        found = admin.describe_cluster().cluster_id
    if settings.is_text:
        write_line(found)
    else:
        print_object({"cluster_id": found}, settings.form)


@cluster.command()
@click.option("--include-fenced", is_flag=True, help="Include fenced storage nodes.")
@click.option("--controllers", "of_controllers", is_flag=True, help="Show the controllers instead.")
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def endpoints(settings: Settings, *, include_fenced: bool, of_controllers: bool) -> None:
    """Show the addresses of the storage nodes, or of the controllers."""
    if include_fenced and of_controllers:
        raise click.UsageError("--controllers excludes --include-fenced")
    with open_admin(settings, settings.client_config()) as admin:
        if of_controllers:
            quorum = admin.describe_metadata_quorum()
            rows = [
                _endpoint(each.replica_id, "voter", each.address, None, _state(each, quorum.leader_id))
                for each in quorum.voters
            ]
            rows += [
                _endpoint(each.replica_id, "observer", each.address, None, None) for each in quorum.observers
            ]
        else:
            nodes = admin.describe_cluster(include_fenced=include_fenced).nodes
            rows = [
                _endpoint(each.node_id, "node", each.address, each.rack, each.state.value) for each in nodes
            ]
    print_rows(rows, _ENDPOINTS, settings.form)


@cluster.command("api-versions")
@click.option(
    "--node",
    "nodes",
    type=click.IntRange(min=0),
    multiple=True,
    shell_complete=node_ids,
    help="Only this node; repeatable.",
)
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
def api_versions(settings: Settings, *, nodes: tuple[int, ...]) -> None:
    """Show the versions of the apis that each node serves to headrace's clients.

    `usable` is the version that this client uses. docs/KAFKA_CLIENTS.md has the versions for Kafka's clients.
    """
    config = settings.client_config()
    with open_admin(settings, config) as admin:
        known = {each.node_id: each.address for each in admin.describe_cluster().nodes}
    unknown = sorted(set(nodes) - known.keys())
    if unknown:
        raise click.UsageError(f"node {unknown[0]} is not registered, or fenced")
    chosen = {node: known[node] for node in nodes or sorted(known)}
    found = asyncio.run(_served(config, chosen))
    rows = [
        _api_row(node, each)
        for node, served in found.items()
        if not isinstance(served, KafkaError)
        for each in sorted(served, key=lambda each: each.api_key)
    ]
    print_rows(rows, _APIS, settings.form)
    errors = {f"node {node}": served for node, served in found.items() if isinstance(served, KafkaError)}
    raise_first(errors, len(found), "nodes")


async def _served(
    config: dict[str, str], nodes: dict[int, Address]
) -> dict[int, tuple[ApiVersionRange, ...] | KafkaError]:
    from ..node_requests_io import node_network

    async def ask(address: Address) -> tuple[ApiVersionRange, ...] | KafkaError:
        try:
            return await network.served_apis(address, _TIMEOUT_MS)
        except KafkaError as error:
            return error

    async with node_network(config) as network:
        answers = await asyncio.gather(*map(ask, nodes.values()))
    return dict(zip(nodes, answers, strict=True))


def _api_row(node: int, served: ApiVersionRange) -> dict[str, Any]:
    from ...protocol.messages import registry

    api = registry.APIS_BY_KEY.get(served.api_key)
    usable = None
    if api is not None and served.min_version <= api.max_version and served.max_version >= api.min_version:
        usable = min(served.max_version, api.max_version)
    return {
        "node": node,
        "api": None if api is None else api.name,
        "key": served.api_key,
        "min_version": served.min_version,
        "max_version": served.max_version,
        "usable": usable,
    }


def _state(controller: QuorumReplicaInfo, leader: int) -> str:
    return "leader" if controller.replica_id == leader else "follower"


def _endpoint(
    number: int, role: str, address: Address, rack: str | None, state: str | None
) -> dict[str, Any]:
    return {
        "id": number,
        "role": role,
        "host": address.host,
        "port": address.port,
        "rack": rack,
        "state": state,
    }
