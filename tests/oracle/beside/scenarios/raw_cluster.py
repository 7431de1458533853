"""Raw requests to three nodes: leaders, readable replicas, responses while other nodes are down."""

import threading
from typing import Any

from headrace.runtime.waiting_io import until

from ..asking import Asking, batch
from ..scene import Scene, scenario
from ..three import CHANGE_S, Nodes, plain

CLIENT = "raw"
ALL_EVERYWHERE = ((1, 2, 3), (2, 3, 1), (3, 1, 2))


def described(asking: Asking, label: str, *topics: str) -> None:
    """All responses that describe nodes and replicas."""
    note = asking.scene.note
    for version in (1, 4, 5, 8, 12, 13):
        wanted = [{"name": each} for each in topics]
        note(f"{label} metadata v{version}", plain(asking.ask("", "metadata", version, topics=wanted)))
    for version in range(3):
        fields = {"endpoint_type": 1, "include_fenced_brokers": True}
        note(f"{label} cluster v{version}", plain(asking.ask("", "describe_cluster", version, **fields)))
    fields = {"topics": [{"name": each} for each in topics], "response_partition_limit": 10, "cursor": None}
    note(f"{label} partitions", plain(asking.ask("", "describe_topic_partitions", 0, **fields)))


def leave_only(nodes: Nodes, *kept: int) -> None:
    """End all but these, and wait until these know."""
    for number in set(nodes) - set(kept):
        nodes.end(number)

    def know() -> bool:
        response = [nodes[number].wire.ask("metadata", 12, topics=[])["brokers"] for number in nodes]
        return all(len(each) == len(kept) for each in response)

    assert until(know, CHANGE_S)


def shown(follower: Asking) -> None:
    """Until this one knows that its first records are committed."""

    def is_so() -> bool:
        return bool(follower.fetch("", version=12)["responses"][0]["partitions"][0]["records"])

    assert until(is_so, CHANGE_S)


@scenario(CLIENT, "three nodes described, one of them gone", nodes=3)
def described_nodes(scene: Scene) -> None:
    one, two = (f"{scene.topic}-{name}" for name in ("one", "two"))
    with Nodes(scene) as nodes:
        nodes.create(scene.topic, *ALL_EVERYWHERE, min_insync_replicas="2")
        nodes.create(two, (3, 2), min_insync_replicas="2")
        nodes.create(one, (3,))
        described(nodes[1], "all", scene.topic, one, two)
        leave_only(nodes, 1, 2)
        nodes.until_placed(scene.topic, (1, (1, 2)), (2, (1, 2)), (1, (1, 2)))
        nodes.until_placed(two, (2, (2,)))
        nodes.until_led(one, -1)
        described(nodes[2], "two", scene.topic, one, two)
        for topic in (one, two):
            nodes[2].produce(f"to {topic}", batch(), topic=topic, version=12)
            nodes[2].fetch(f"from {topic}", topic=topic, version=12)
        nodes.back()
        nodes.until_placed(scene.topic, (1, (1, 2, 3)), (2, (1, 2, 3)), (1, (1, 2, 3)))
        nodes.until_placed(one, (3, (3,)))
        nodes.until_placed(two, (2, (2, 3)))
        described(nodes[3], "all again", scene.topic, one, two)


@scenario(CLIENT, "requests to nodes that do not lead", nodes=3)
def hints(scene: Scene) -> None:
    """KIP-951: produce and fetch at a follower, and at a node that has no replica."""
    with Nodes(scene) as nodes:
        topic_id = nodes.create(scene.topic, (1, 2))
        nodes[1].produce("", batch())
        shown(nodes[2])
        for node in (2, 3):
            for version in range(3, 13):
                nodes[node].produce(f"produce at {node} v{version}", batch(), version=version)
            topics = [{"topic_id": topic_id, "partition_data": [{"index": 0, "records": batch()}]}]
            fields = {"acks": -1, "timeout": 10_000, "topic_data": topics}
            nodes[node].ask(f"produce at {node} v13", "produce", 13, **fields)
            nodes[node].produce(f"nothing at {node}", batch(), acks=1, version=12, partition=9)
            for version in (4, 9, 12):
                nodes[node].fetch(f"fetch at {node} v{version}", version=version)
            part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
            topics = [{"topic_id": topic_id, "partitions": [{**part, "current_leader_epoch": -1}]}]
            for version in range(13, 19):
                nodes[node].fetch(f"fetch at {node} v{version}", version=version, topics=topics)
        for node in nodes:
            for label, epoch in (("none", -1), ("old", 0), ("next", 5)):
                nodes[node].fetch(f"epoch {label} at {node}", epoch=epoch, version=12)
                offsets_at(nodes[node], f"epoch {label} at {node}", epoch)


def offsets_at(asking: Asking, label: str, epoch: int) -> None:
    """A node's offsets and epoch ends for a request with this leader epoch."""
    topic = asking.scene.topic
    part: dict[str, Any] = {"partition_index": 0, "current_leader_epoch": epoch, "timestamp": -1}
    topics = [{"name": topic, "partitions": [part]}]
    asking.ask(f"{label} list", "list_offsets", 7, replica_id=-1, isolation_level=0, topics=topics)
    for wanted in (0, 1, 9):
        part = {"partition": 0, "current_leader_epoch": epoch, "leader_epoch": wanted}
        topics = [{"topic": topic, "partitions": [part]}]
        asking.ask(f"{label} ends {wanted}", "offset_for_leader_epoch", 4, replica_id=-1, topics=topics)
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
    if asking.node != 1:
        asking.ask(f"{label} delete", "delete_records", 2, topics=topics, timeout=1000)
    asking.ask(
        f"{label} producers", "describe_producers", 0, topics=[{"name": topic, "partition_indexes": [0]}]
    )


@scenario(CLIENT, "leaders change", nodes=3)
def epochs(scene: Scene) -> None:
    """Each node stops and restarts; all report the same ends of leader epochs; no record is lost."""
    with Nodes(scene) as nodes:
        nodes.create(scene.topic, (1, 2, 3))
        nodes[1].produce("first", batch())
        for count, (gone, leader) in enumerate(((1, 2), (2, 1)) * 2, 1):
            nodes.end(gone)
            rest = tuple(sorted({1, 2, 3} - {gone}))
            nodes.until_placed(scene.topic, (leader, rest))
            nodes[leader].settled_produce(f"epoch {count}, without {gone}")
            nodes.back()
            nodes.until_placed(scene.topic, (leader, (1, 2, 3)))
            nodes[leader].settled_produce(f"epoch {count}, {gone} is back")
        for epoch in range(-1, 9):
            offsets_at_epoch(nodes[1], f"epoch {epoch}", epoch)
        nodes[1].fetch("all", version=12)
        for label, last in (("as it is", 4), ("diverged", 0), ("ahead", 99)):
            part = {
                "partition": 0,
                "fetch_offset": 12,
                "current_leader_epoch": -1,
                "partition_max_bytes": 1 << 20,
                "last_fetched_epoch": last,
            }
            topics = [{"topic": scene.topic, "partitions": [part]}]
            nodes[1].fetch(f"last epoch {label}", version=12, topics=topics)


def offsets_at_epoch(asking: Asking, label: str, epoch: int) -> None:
    part = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
    topics = [{"topic": asking.scene.topic, "partitions": [part]}]
    asking.ask(label, "offset_for_leader_epoch", 4, replica_id=-1, topics=topics)


@scenario(CLIENT, "the nearest replica is read", nodes=3)
def by_rack(scene: Scene) -> None:
    """KIP-392: leaders name the replica in the reader's rack; that one answers."""
    with Nodes(scene) as nodes:
        nodes.create(scene.topic, (1, 2))
        nodes[1].produce("", batch())
        shown(nodes[2])
        for node in (1, 2, 3):
            for rack in ("", "rack-1", "rack-2", "rack-3", "nowhere"):
                nodes[node].fetch(f"{rack or 'no rack'} at {node}", version=12, rack_id=rack)
        nodes[2].fetch("beyond", version=12, offset=99)
        nodes[2].fetch("committed", version=12, isolation_level=1)


@scenario(CLIENT, "leaders are elected on demand", nodes=3)
def elections(scene: Scene) -> None:
    """Preferred and unclean, of what needs it, of what does not, of what is not there."""
    alone = f"{scene.topic}-alone"
    with Nodes(scene) as nodes:
        nodes.create(scene.topic, (3, 1), (1, 3))
        nodes.create(alone, (3,))
        leave_only(nodes, 1, 2)
        nodes.until_placed(scene.topic, (1, (1,)), (1, (1,)))
        nodes.until_led(alone, -1)

        def elect(label: str, kind: int, version: int = 2) -> None:
            parts = [
                {"topic": scene.topic, "partitions": [0, 1, 9]},
                {"topic": alone, "partitions": [0]},
                {"topic": "none", "partitions": [0]},
            ]
            fields = {"topic_partitions": parts, "timeout": 10_000}
            if version:
                fields["election_type"] = kind
            nodes[1].ask(label, "elect_leaders", version, **fields)

        elect("preferred is gone", 0)
        elect("unclean, none is there", 1)
        elect("no such kind", 7)
        nodes.back()
        nodes.until_placed(scene.topic, (1, (1, 3)), (1, (1, 3)))
        nodes.until_led(alone, 3)
        elect("unclean, none needed", 1)
        elect("preferred", 0, 0)
        nodes.until_placed(scene.topic, (3, (1, 3)), (1, (1, 3)))
        elect("preferred again", 0, 1)


@scenario(CLIENT, "an unclean leader", nodes=3)
def unclean(scene: Scene) -> None:
    """The last in-sync replica stops; another one is elected, and the records that it lacks are lost."""
    with Nodes(scene) as nodes:
        nodes.create(scene.topic, (2, 1))
        nodes[2].produce("both", batch())
        nodes.end(1)
        nodes.until_placed(scene.topic, (2, (2,)))
        nodes[2].settled_produce("one")
        nodes.end(2)
        nodes.scene.system.restart(1)
        nodes.by_number[1] = Asking(scene, 1)
        nodes.until_led(scene.topic, -1)
        described(nodes[3], "none leads", scene.topic)
        parts = {"topic_partitions": [{"topic": scene.topic, "partitions": [0]}], "timeout": 10_000}
        nodes[3].ask("preferred", "elect_leaders", 2, election_type=0, **parts)
        nodes[3].ask("unclean", "elect_leaders", 2, election_type=1, **parts)
        nodes.until_placed(scene.topic, (1, (1,)))
        nodes[1].settled_produce("after")
        nodes.back()
        nodes.until_placed(scene.topic, (1, (1, 2)))
        nodes[1].fetch("what is left", version=12)


@scenario(CLIENT, "ISR below min.insync.replicas", nodes=3)
def too_few(scene: Scene) -> None:
    """min.insync.replicas unmet before a batch is appended, and after."""
    with Nodes(scene) as nodes:
        nodes.create(scene.topic, (1, 2, 3), min_insync_replicas="3")
        nodes[1].produce("enough", batch(), version=12)
        nodes.kill(3)
        waiting = threading.Thread(
            target=lambda: nodes[1].produce("ISR shrinks meanwhile", batch(), version=12), daemon=True
        )
        waiting.start()
        waiting.join(CHANGE_S)
        nodes.until_placed(scene.topic, (1, (1, 2)))
        for acks in (-1, 1):
            nodes[1].produce(f"too few, acks {acks}", batch(), acks=acks, version=12)
        nodes[1].fetch("seen meanwhile", version=12)
        nodes.back()
        nodes.until_placed(scene.topic, (1, (1, 2, 3)))
        nodes[1].produce("enough again", batch(), version=12)
        nodes[1].fetch("seen", version=12)


@scenario(CLIENT, "replicas move", nodes=3)
def moves(scene: Scene) -> None:
    """AlterPartitionReassignments: to other nodes, to more, to fewer, what cannot be, what is called off."""
    with Nodes(scene) as nodes:
        nodes.create(scene.topic, (1, 2), (2, 3))
        nodes[1].produce("", batch())

        def move(
            label: str, *partitions: tuple[int, list[int] | None], version: int = 0, **more: Any
        ) -> None:
            parts = [{"partition_index": number, "replicas": replicas} for number, replicas in partitions]
            topics = [{"name": more.pop("topic", scene.topic), "partitions": parts}]
            fields = {"timeout": 10_000, "topics": topics, **more}
            nodes[2].ask(label, "alter_partition_reassignments", version, **fields)

        for label, replicas in (
            ("nowhere", [9]),
            ("twice", [1, 1]),
            ("to none", []),
            ("below nothing", [-1]),
            ("nothing to call off", None),
        ):
            move(label, (0, replicas))
        move("no partition", (9, [1]))
        move("no topic", (0, [1]), topic="no-such-topic")
        move("more replicas, not allowed", (0, [1, 2, 3]), version=1, allow_replication_factor_change=False)
        move("moved", (0, [3, 2]), (1, [2, 3]), version=1)
        nodes.until_placed(scene.topic, (3, (2, 3)), (2, (2, 3)))
        move("more", (0, [3, 2, 1]))
        nodes.until_placed(scene.topic, (3, (1, 2, 3)), (2, (2, 3)))
        move("fewer", (0, [1]))
        nodes.until_placed(scene.topic, (1, (1,)), (2, (2, 3)))
        wanted = [{"name": scene.topic, "partition_indexes": [0, 1, 9]}, {"name": "none"}]
        nodes[3].ask("none is moved", "list_partition_reassignments", 0, topics=wanted, timeout=10_000)
        nodes.end(3)
        nodes.until_placed(scene.topic, (1, (1,)), (2, (2,)))
        move("to one that is gone", (0, [3, 2]))
        nodes.until_placed(scene.topic, (1, (1, 2)), (2, (2,)))
        nodes[1].ask("under way", "list_partition_reassignments", 0, topics=wanted, timeout=10_000)
        nodes[1].ask("all under way", "list_partition_reassignments", 0, topics=None, timeout=10_000)
        described(nodes[1], "under way", scene.topic)
        move("called off", (0, None))
        nodes[1].ask("none is left", "list_partition_reassignments", 0, topics=wanted, timeout=10_000)
        nodes.until_placed(scene.topic, (1, (1,)), (2, (2,)))
        described(nodes[2], "called off", scene.topic)
