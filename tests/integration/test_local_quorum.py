"""`headrace.local(controllers=3)`: a cluster whose controllers are killed one after the other."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import headrace
import pytest
from headrace.clients.admin.admin_types import NewTopic
from headrace.protocol.errors import ApiTimeoutError, HeadraceError, NotControllerError
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import CreateTopicsRequest, NewTopicSpec
from headrace.protocol.transport.dealer_io import Connection
from waiting import wait_for

FAST = {
    "controller_quorum_election_timeout_ms": 200,
    "controller_quorum_fetch_timeout_ms": 400,
    "controller_quorum_election_backoff_max_ms": 100,
}


def active(cluster: Any) -> int:
    """The index of the active controller; waits for one."""
    wait_for(lambda: cluster.active_controller() is not None, "a controller leads")
    return int(cluster.active_controller())


async def create_at_node(bootstrap: str, name: str, timeout_ms: int) -> Any:
    """One request to a storage node, without the client's retries."""
    host, _, port = bootstrap.rpartition(":")
    connection = await Connection.open(host, int(port), client_id="test", timeout_s=60)
    try:
        request = CreateTopicsRequest((NewTopicSpec(name),), timeout_ms)
        return await connection.request(registry.CREATE_TOPICS, request, timeout_s=60)
    finally:
        connection.close()


def test_topics_survive_killed_leaders() -> None:
    """Topics are created through the nodes; every acknowledged one exists, without a client's error."""
    with headrace.local(nodes=2, controllers=3, **FAST) as cluster:
        made: list[str] = []
        failed: list[BaseException] = []
        is_over = threading.Event()

        def create(number: int) -> None:
            with cluster.admin() as admin:
                for count in range(10_000):
                    if is_over.is_set():
                        return
                    name = f"t-{number}-{count}"
                    try:
                        admin.create_topics(NewTopic(name, partitions=1)).raise_for_errors()
                        made.append(name)
                    except BaseException as error:  # noqa: BLE001 - shown below
                        failed.append(error)
                        return

        threads = [threading.Thread(target=create, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(2):
            goal = len(made) + 20
            wait_for(lambda goal=goal: len(made) >= goal or bool(failed), "topics are created")  # type: ignore[misc]
            leader = active(cluster)
            cluster.kill_controller(leader)
            active(cluster)
            cluster.restart_controller(leader)
        is_over.set()
        for thread in threads:
            thread.join(60)
        assert failed == []
        with cluster.admin() as admin:
            found = {listing.name for listing in admin.list_topics()}
        assert set(made) <= found
        facts = cluster.status()
        assert facts["controller"]["topics"] == len(found)


def test_data_plane_continues_without_a_majority() -> None:
    """Two of three controllers are down: records are sent and read, decisions fail with a retriable error;
    one returns, and decisions continue."""
    with headrace.local(nodes=1, controllers=3, broker_session_timeout_ms=60_000, **FAST) as cluster:
        with cluster.admin() as admin:
            admin.create_topics(NewTopic("t", partitions=1)).raise_for_errors()
        leader = active(cluster)
        gone = [leader, (leader + 1) % 3]
        for index in gone:
            cluster.kill_controller(index)
        with cluster.producer() as producer:
            for number in range(100):
                producer.send("t", b"%d" % number)
            producer.flush(60)
        with cluster.consumer("t", auto_offset_reset="earliest") as consumer:
            seen = 0
            ends_at = time.monotonic() + 120
            while seen < 100:
                assert time.monotonic() < ends_at
                seen += len(consumer.poll(0.5))
        with cluster.admin() as admin:
            with pytest.raises(NotControllerError, match="no active controller can be reached") as refused:
                asyncio.run(create_at_node(cluster.bootstrap, "u", timeout_ms=500))
            assert refused.value.retriable
            with pytest.raises(ApiTimeoutError):
                _ = admin.create_topics(NewTopic("u"), timeout=1.0)["u"]
            assert cluster.status()["controller"] is None
            cluster.restart_controller(gone[1])
            active(cluster)
            admin.create_topics(NewTopic("v")).raise_for_errors()
        cluster.restart_controller(gone[0])


def test_restart_starts_all_controllers_of_the_data_dir(tmp_path: Path) -> None:
    """controllers=1 is given, three start, and they have the topics."""
    with headrace.local(nodes=1, data_dir=str(tmp_path), controllers=3, **FAST) as cluster:
        with cluster.admin() as admin:
            admin.create_topics(NewTopic("t")).raise_for_errors()
        cluster_id = cluster.status()["controller"]["cluster_id"]
    with headrace.local(nodes=1, data_dir=str(tmp_path), **FAST) as cluster:
        facts = cluster.status()
        assert [each["controller_id"] for each in facts["controllers"]] == [1, 2, 3]
        assert facts["controller"]["quorum"]["voters"] == [1, 2, 3]
        assert (facts["controller"]["cluster_id"], facts["controller"]["topics"]) == (cluster_id, 1)
        with cluster.admin() as admin:
            response = admin.describe_metadata_quorum()
            assert response.leader_id == facts["controller"]["controller_id"]
            assert {each.replica_id for each in response.voters} == {1, 2, 3}
            wait_for(lambda: not any(e.lag for e in admin.describe_metadata_quorum().voters), "no lag")


@pytest.mark.parametrize("controllers", [0, 10])
def test_number_of_controllers_is_checked(controllers: int) -> None:
    """One to nine."""
    with pytest.raises((ValueError, HeadraceError), match=r"within 1\.\.9"):
        headrace.local(controllers=controllers)
