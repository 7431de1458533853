"""Kafka's own command line tools."""

from __future__ import annotations

from ..scene import Scene, scenario

TOOLS = "org.apache.kafka.tools"


@scenario("java tools", "kafka-topics")
def topics(scene: Scene) -> None:
    def call(label: str, *arguments: str) -> None:
        done = scene.tool(f"{TOOLS}.TopicCommand", "--bootstrap-server", scene.bootstrap, *arguments)
        scene.note(label, {"status": done.status, "out": done.out.splitlines(), "err": done.err.splitlines()})

    call(
        "create", "--create", "--topic", scene.topic, "--partitions", "3", "--config", "retention.ms=3600000"
    )
    call("again", "--create", "--topic", scene.topic)
    call("describe", "--describe", "--topic", scene.topic)
    call("alter", "--alter", "--topic", scene.topic, "--partitions", "4")
    call("fewer", "--alter", "--topic", scene.topic, "--partitions", "2")
    call("describe again", "--describe", "--topic", scene.topic)
    call("unknown", "--describe", "--topic", "no-such-topic")
    call("delete", "--delete", "--topic", scene.topic)
