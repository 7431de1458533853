"""Where workers run, and how their actors are named. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .config import WorkersConfig

# No namespace of a cluster begins so: those are headrace-<cluster>.
NAMESPACE = "headrace_streams"
_WORKER = re.compile(r"(?P<application>[^/]+)/(?P<run>[^/]+)/worker-(?P<slot>\d+)\.(?P<life>\d+)")


class WorkerId(NamedTuple):
    """Worker `slot` (from 1) of a run, and the number of its process (from 1)."""

    slot: int
    life: int

    @property
    def folder(self) -> str:
        """The name of its folder for state: the same one after each restart on the machine."""
        return f"worker-{self.slot}"

    def __str__(self) -> str:
        return f"worker-{self.slot}.{self.life}"


def worker_name(application_id: str, run_id: str, worker: WorkerId) -> str:
    """The name of its actor. A process has a name of its own: Ray may still know the one before it."""
    return f"{application_id}/{run_id}/{worker}"


def workers_in(names: Iterable[str], application_id: str) -> dict[str, tuple[str, WorkerId]]:
    """The run and the id of each worker of the application among these actors, by name."""
    found = {}
    for name in names:
        match = _WORKER.fullmatch(name)
        if match is not None and match["application"] == application_id:
            found[name] = match["run"], WorkerId(int(match["slot"]), int(match["life"]))
    return found


def supervisors_in(names: Iterable[str]) -> list[str]:
    """The application ids of the supervisors among these actors, sorted."""
    return sorted(name for name in names if "/" not in name)


def actor_options(config: WorkersConfig, resources: Mapping[str, float]) -> dict[str, Any]:
    """Ray's options for the share of a worker."""
    options: dict[str, Any] = {"num_cpus": config.cpus, "resources": dict(resources)}
    if config.memory_bytes:
        options["memory"] = config.memory_bytes
    if config.gpus:
        options["num_gpus"] = config.gpus
    return options


def node_for(
    nodes: Sequence[str], leads: Mapping[str, int], occupied: Mapping[str, int], home: str | None = None
) -> str | None:
    """The Ray node for the next worker; None if there are none.

    `home`, where its state is, if that node is there. Otherwise by D'Hondt's rule: the node whose storage
    nodes lead most source partitions for each of its workers. Without leads the one with the fewest workers.
    """
    if home in nodes:
        return home
    leading = [node for node in nodes if leads.get(node, 0) > 0]
    if not leading:
        return min(nodes, key=lambda node: (occupied.get(node, 0), node), default=None)
    return min(leading, key=lambda node: (-leads[node] / (occupied.get(node, 0) + 1), node))


def leads_by_node(
    leaders: Iterable[str], nodes: Mapping[str, str], loopback_node: str | None
) -> dict[str, int]:
    """How many partitions storage nodes of each Ray node lead.

    `leaders`: the host of the leader of each partition; `nodes`: Ray node id to address. A loopback address
    is that of the machine of `loopback_node`. Raylets that share a machine all count.
    """
    by_address: dict[str, list[str]] = {}
    for node, address in nodes.items():
        by_address.setdefault(address, []).append(node)
    own = nodes.get(loopback_node or "", "")
    found: dict[str, int] = {}
    for host in leaders:
        for node in by_address.get(own if is_loopback(host) else host, ()):
            found[node] = found.get(node, 0) + 1
    return found


def task_count(inputs: Iterable[Sequence[str]], partitions: Mapping[str, int]) -> int:
    """The number of active tasks, from the input topics of each sub-topology. The tasks that members have are
    fewer while they move: workers would be removed because they were added."""
    return sum(max((partitions[topic] for topic in topics), default=0) for topics in inputs)


def is_loopback(host: str) -> bool:
    """Whether an address is reached only on its own machine."""
    return host == "localhost" or host == "::1" or host.startswith("127.")
