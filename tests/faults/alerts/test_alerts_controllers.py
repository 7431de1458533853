"""Alerts of controllers, the quorum and the metadata, in a cluster of processes."""

from collections.abc import Callable

import headrace
import pytest
from alert_cluster import AlertCluster, hang, release
from alerting import AlertWatch
from fault_cluster import Server
from proxy import between

pytestmark = pytest.mark.xdist_group("alerts")  # one cluster for all

SLOW_DISK_MS = 1_200  # longer than the rules allow, shorter than controller.quorum.fetch.timeout.ms
QUOTAS = 1_100  # more records than the rules allow a server to lack


def quotas(cluster: AlertCluster, rate: float | None) -> None:
    """Write so many records of metadata."""
    entities = [headrace.quota_entity(user=f"user-{number}") for number in range(QUOTAS)]
    with cluster.clients.admin() as admin:
        for part in (entities[::2], entities[1::2]):
            changes = {entity: {"producer_byte_rate": rate} for entity in part}
            admin.alter_client_quotas(changes).raise_for_errors()


def others(servers: list[Server], *without: Server) -> list[Server]:
    return [server for server in servers if server not in without]


@pytest.mark.faults
@pytest.mark.alerts("HeadraceQuorumCommitSlow", "HeadraceControllerSlow")
def test_slow_disks_of_all_controllers(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """Each commit waits for the disks of a majority."""
    entity = headrace.quota_entity(client_id="app")
    with fault(watch) as fires, cluster.clients.admin() as admin:
        cluster.stall_controllers_disks(SLOW_DISK_MS)
        fires(each=lambda: admin.alter_client_quotas({entity: {"producer_byte_rate": 1e9}}))
        cluster.stall_controllers_disks(0)


@pytest.mark.alerts("HeadraceQuorumWithoutLeader", "HeadraceNoActiveController")
def test_paused_majority_of_controllers(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """The remaining controller does not become the leader."""
    active = cluster.active_controller
    paused = [active, others(cluster.controllers, active)[0]]
    with fault(watch) as fires:
        for server in paused:
            server.pause()
        fires()
        for server in paused:
            server.resume()


@pytest.mark.alerts("HeadraceNoActiveController")
def test_all_controllers_are_paused(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """No controller is left that says so."""
    with fault(watch) as fires:
        for server in cluster.controllers:
            server.pause()
        fires()
        for server in cluster.controllers:
            server.resume()


@pytest.mark.faults
@pytest.mark.alerts("HeadraceQuorumElections")
def test_active_controllers_that_are_paused_in_turn(
    cluster: AlertCluster, watch: AlertWatch, fault: Callable
) -> None:
    def fail_over() -> None:
        old = cluster.active_controller
        old.pause()
        cluster.until(lambda: cluster.active_controller is not old, "another controller is active")
        old.resume()

    with fault(watch) as fires:
        fires(each=fail_over)


@pytest.mark.faults
@pytest.mark.alerts("HeadraceQuorumVoterBehind", "HeadraceMetadataBehind", "HeadraceControllerUnreachable")
def test_isolated_controller_and_node(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """No active controller reaches them, while metadata is written."""
    node, voter = cluster.nodes[-1], others(cluster.controllers, cluster.active_controller)[0]
    names = [server.name for server in others(cluster.controllers, voter)]
    with fault(watch) as fires:
        cluster.network.freeze(between([voter.name], names) + between([node.name], [*names, voter.name]))
        quotas(cluster, 1e9)
        fires()
        cluster.network.heal()
        quotas(cluster, None)


@pytest.mark.faults
@pytest.mark.alerts("HeadraceSeveralActiveControllers", "HeadraceMetricsStale")
def test_active_controller_that_hangs(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """Its endpoint answers with its last values, which say that it is active."""
    with fault(watch) as fires:
        old = cluster.active_controller
        hang(old)
        fires()
        release(old)
