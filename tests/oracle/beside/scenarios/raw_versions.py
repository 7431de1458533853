"""Requests made by hand: every API in every version that both systems advertise."""

from __future__ import annotations

from ..scene import Scene, scenario
from ..wire import Wire


@scenario("raw", "metadata of a topic in every version")
def metadata(scene: Scene) -> None:
    with Wire(scene.bootstrap) as wire:
        made = {"name": scene.topic, "num_partitions": 2, "replication_factor": 1}
        scene.note("created", wire.ask("create_topics", 5, topics=[made], timeout=10_000))
        for version in range(13):
            topics = [{"name": scene.topic}]
            scene.note(f"v{version}", wire.ask("metadata", version, topics=topics))
