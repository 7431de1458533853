"""Kafka's own command line tools against three nodes."""

import json

from ..scene import Scene, scenario
from ..three import Nodes
from .java_tools import (
    CLIENT,
    CONSUMER,
    GROUPS,
    PRODUCER,
    READ,
    TOOLS,
    TOPICS,
    WRITE,
    call,
    note_printed,
    play,
    run,
)

QUORUM, DIRS = f"{TOOLS}.MetadataQuorumCommand", f"{TOOLS}.LogDirsCommand"
ELECT, MOVE = f"{TOOLS}.LeaderElectionCommand", f"{TOOLS}.reassign.ReassignPartitionsCommand"

MAKE = call(
    "made", TOPICS, "--create --topic {topic} --replica-assignment 1:2,2:3 --config min.insync.replicas=2"
)
FILL = call("filled", PRODUCER, f"{WRITE} --property parse.key=true", "a\tone\nb\ttwo\n")
ALL_UP = [
    call("described", TOPICS, "--describe --topic {topic}"),
    call("three replicas", TOPICS, "--create --topic {topic}-3 --partitions 2 --replication-factor 3"),
    call("four replicas", TOPICS, "--create --topic {topic}-4 --partitions 1 --replication-factor 4"),
    call("log dirs", DIRS, "--describe --topic-list {topic} --broker-list 1,2"),
    call("log dirs of one", DIRS, "--describe --topic-list {topic} --broker-list 2"),
    call("log dirs of none", DIRS, "--describe --topic-list {topic} --broker-list 1,9"),
    call("elect", ELECT, "--election-type preferred --topic {topic} --partition 0"),
    call("elect unclean", ELECT, "--election-type unclean --topic {topic} --partition 1"),
    call("elect nothing", ELECT, "--election-type preferred --topic {topic} --partition 7"),
    call("moving", MOVE, "--list"),
    call(
        "read near",
        CONSUMER,
        f"--consumer-property client.rack=rack-2 --consumer-property group.protocol=consumer {READ} 2",
    ),
    call("group", GROUPS, "--describe --group {topic}"),
    call("leave", f"{TOOLS}.ClusterTool", "unregister --id 99"),
]
ONE_GONE = [
    call("gone: described", TOPICS, "--describe --topic {topic}"),
    call("gone: under-replicated", TOPICS, "--describe --under-replicated-partitions --topic {topic}"),
    call("gone: unavailable", TOPICS, "--describe --unavailable-partitions --topic {topic}"),
    call("gone: under min", TOPICS, "--describe --under-min-isr-partitions --topic {topic}"),
    call("gone: at min", TOPICS, "--describe --at-min-isr-partitions --topic {topic}"),
    call("gone: endpoints", f"{TOOLS}.ClusterTool", "list-endpoints --include-fenced-brokers"),
    call("gone: log dirs", DIRS, "--describe --topic-list {topic} --broker-list 1,2"),
    call("gone: elect", ELECT, "--election-type preferred --topic {topic} --partition 1"),
]


@scenario(CLIENT, "three nodes", nodes=3)
def three_nodes(scene: Scene) -> None:
    with Nodes(scene) as nodes:
        play(scene, [MAKE])
        nodes.until_placed(scene.topic, (1, (1, 2)), (2, (2, 3)))
        play(scene, [FILL, *ALL_UP])
        nodes.end(2)
        nodes.until_placed(scene.topic, (1, (1,)), (3, (3,)))
        play(scene, ONE_GONE)
        nodes.back()
        nodes.until_placed(scene.topic, (1, (1, 2)), (3, (2, 3)))
        play(scene, [call("elected", ELECT, "--election-type preferred --topic {topic} --partition 1")])
        nodes.until_placed(scene.topic, (1, (1, 2)), (2, (2, 3)))


@scenario(CLIENT, "replicas move among three nodes", nodes=3)
def moved(scene: Scene) -> None:
    """kafka-reassign-partitions: with a throttle, verified, listed, called off."""
    with Nodes(scene) as nodes:
        play(scene, [MAKE, FILL])

        def tool(label: str, replicas: list[int], *arguments: str) -> None:
            part = {"topic": scene.topic, "partition": 0, "replicas": replicas}
            with scene.file(json.dumps({"partitions": [part], "version": 1})) as wanted:
                done = run(scene, MOVE, "--reassignment-json-file", wanted, *arguments)
            note_printed(scene, label, done)

        throttle = ("--throttle", "10000000", "--replica-alter-log-dirs-throttle", "5000000")
        tool("moved", [3, 1], "--execute", *throttle)
        nodes.until_placed(scene.topic, (1, (1, 3)), (2, (2, 3)))
        described = call("throttled", TOPICS, "--describe --topic {topic}")
        play(scene, [described])
        tool("verified", [3, 1], "--verify")
        play(scene, [described._replace(label="not throttled")])
        nodes.end(2)
        tool("to one that is gone", [2, 1], "--execute")
        tool("under way", [2, 1], "--verify", "--preserve-throttles")
        play(scene, [call("listed", MOVE, "--list")])
        tool("again", [1, 3], "--execute")
        tool("called off", [2, 1], "--cancel", "--preserve-throttles")
        play(scene, [call("listed after", MOVE, "--list"), described._replace(label="after")])
