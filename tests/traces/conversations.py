"""The scripts of the traces. Each returns the lines of one conversation; its docstring is their title."""

from __future__ import annotations

from cluster_stage import TOPIC, ClusterStage
from quorum_stage import QuorumStage
from scripted_clients import ScriptedMember, ScriptedProducer, ScriptedTransactions


def election() -> list[str]:
    """Three controllers elect a leader. It is cut off from the others, which elect a new leader; when the
    links work again, the old leader truncates what it appended meanwhile."""
    stage = QuorumStage()
    recorder, world = stage.recorder, stage.world
    recorder.heading("three controllers start; none knows a leader")
    for number, controller in stage.controllers.items():
        world.after(number, f"{number} starts", controller.start)
    stage.until(stage.has_replicated)
    recorder.heading("the leader appends a record")
    first = stage.leader
    first.write("v1")
    stage.until(stage.has_replicated)
    recorder.heading(f"the links of controller {first.node_id} to the others are cut; it appends a record")
    others = [node for node in stage.controllers if node != first.node_id]
    stage.network.separate([first.node_id], others)
    first.write("v2")
    stage.until(lambda: any(each is not first for each in stage.active()) and not first.living.is_active)
    recorder.heading("the new leader appends a record")
    stage.leader.write("v3")
    world.run(100)
    recorder.heading("the links work again")
    stage.network.heal()
    stage.until(stage.has_replicated)
    return recorder.lines


def leader_failover() -> list[str]:
    """The leader of a partition is killed. Its session expires, the next replica in the ISR becomes leader,
    and the producer retries there. The old leader starts again, follows, and joins the ISR."""
    stage = ClusterStage()
    recorder = stage.recorder
    stage.open()
    producer = ScriptedProducer(stage, "producer")
    producer.start()
    stage.until(lambda: TOPIC in producer.view.topics)
    recorder.heading("orders-0 has the replicas 1,2,3; the producer sends two records")
    producer.send(0, b"a", b"b")
    stage.until(lambda: producer.is_acknowledged and stage.has_replicated())
    recorder.heading("node 1, the leader, is killed; the producer sends a record")
    stage.nodes[1].die(power=False)
    producer.send(0, b"c")
    stage.until(lambda: producer.is_acknowledged)
    recorder.heading("node 1 starts again")
    stage.nodes[1].start()
    stage.until(stage.is_in_sync)
    stage.until(stage.has_replicated)
    return recorder.lines


def group_join() -> list[str]:
    """Two consumers join a group of the classic protocol, one after the other: the second one is assigned one
    of the two partitions. It reads a record and commits its offset. Fetches between nodes are left out."""
    stage = ClusterStage(groups="classic", partitions=2)
    recorder = stage.recorder
    stage.open()
    first, second = ScriptedMember(stage, "member a"), ScriptedMember(stage, "member b")
    recorder.heading("member a joins the group billing, which reads orders-0 and orders-1")
    first.start()
    stage.until(lambda: len(first.fetcher.states) == 2 and stage.has_replicated())
    stage.world.run(100)
    recorder.heading("member b joins")
    second.start()
    stage.until(lambda: len(second.fetcher.states) == 1 and stage.has_replicated())
    stage.world.run(100)
    recorder.heading("a producer sends a record to orders-1; member b reads and commits it")
    producer = ScriptedProducer(stage, "producer")
    producer.start()
    stage.until(lambda: TOPIC in producer.view.topics)
    producer.send(1, b"a")
    stage.until(lambda: producer.is_acknowledged)
    stage.world.run(150)
    return recorder.lines


def transaction() -> list[str]:
    """A transaction over two partitions is committed, the next one is aborted: the leaders add the partitions
    to the transaction (transaction version 2), and the coordinator on node 3 has the markers written. Fetches
    between nodes are left out."""
    stage = ClusterStage(groups="classic", partitions=2)
    recorder = stage.recorder
    stage.open()
    recorder.heading("a producer with the transactional id billing begins")
    producer = ScriptedTransactions(stage, "billing")
    producer.start()
    stage.until(lambda: producer.is_usable and TOPIC in producer.view.topics and stage.has_replicated())
    recorder.heading("one record to orders-0, one to orders-1, commit")
    producer.transact((0, 1), is_commit=True)
    stage.world.run(100)
    recorder.heading("one record to orders-0, abort")
    producer.transact((0,), is_commit=False)
    stage.world.run(100)
    return recorder.lines


def full_disk() -> list[str]:
    """The disk of the leader is full: it refuses records, and leadership moves to a replica with room. When
    there is room again, the old leader fetches what it lacks and joins the ISR."""
    stage = ClusterStage()
    recorder = stage.recorder
    stage.open()
    producer = ScriptedProducer(stage, "producer")
    producer.start()
    stage.until(lambda: TOPIC in producer.view.topics)
    recorder.heading("node 1 leads orders-0; its disk has no room left; the producer sends a record")
    files = stage.nodes[1].files
    stage.nodes[1].has_bad_disk = True  # the laws expect that it refuses something
    files.capacity_bytes = files.used_bytes()
    producer.send(0, b"a" * 500)
    stage.until(lambda: producer.is_acknowledged)
    stage.world.run(3_000)
    recorder.heading("the disk of node 1 has room again")
    files.capacity_bytes = None
    stage.until(stage.is_in_sync)
    stage.until(stage.has_replicated)
    return recorder.lines


CONVERSATIONS = (election, leader_failover, group_join, transaction, full_disk)
