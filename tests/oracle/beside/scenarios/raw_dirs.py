"""A node with two log dirs: replicas that move between them, one that is wiped, a dir that fails."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.runtime.waiting_io import until

from ..asking import Asking, batch
from ..scene import Scene, scenario
from ..three import CHANGE_S, Nodes

CLIENT = "raw"
HERE = 3  # the node that has two
PLACES = ((1, 2, 3), (2, 3, 1))
KEYS = ("partition_size", "offset_lag", "is_future_key")


def dirs_of(asking: Asking, topic: str, version: int = 4) -> dict[str, Any]:
    """What a node says of its dirs and of the topic's replicas in them."""
    wanted = [{"topic": topic, "partitions": [0, 1]}]
    answer = asking.wire.ask("describe_log_dirs", version, topics=wanted)
    found = {}
    for each in answer["results"]:
        parts = [part for topic in each["topics"] for part in topic["partitions"]]
        replicas = {part["partition_index"]: [part[key] for key in KEYS] for part in parts}
        found[each["log_dir"]] = {"error": each["error_code"], "replicas": replicas}
    return found


def place_of(asking: Asking, topic: str) -> dict[int, str]:
    """Dirs by partition, of replicas that are not on their way."""
    return {
        index: path
        for path, response in dirs_of(asking, topic).items()
        for index, facts in response["replicas"].items()
        if not facts[-1]
    }


def are_equal(scene: Scene, index: int) -> Callable[[], bool]:
    """Whether every replica of a partition has the same bytes, and some."""

    def is_so() -> bool:
        folders = [scene.system.log_of(number, f"{scene.topic}-{index}") for number in scene.system.taps]
        logs = [b"".join(path.read_bytes() for path in sorted(each.glob("0*.log"))) for each in folders]
        return logs[0] != b"" and len(set(logs)) == 1

    return is_so


def move(asking: Asking, label: str, topic: str, *paths: Path) -> dict[str, Any]:
    """Partition 0, 1, ... to these dirs."""
    dirs = [
        {"path": str(path), "topics": [{"name": topic, "partitions": [index]}]}
        for index, path in enumerate(paths)
    ]
    return asking.ask(label, "alter_replica_log_dirs", 2, dirs=dirs)


@scenario(CLIENT, "replicas in two log dirs", nodes=3)
def two_dirs(scene: Scene) -> None:
    first, second = scene.system.log_dirs[HERE], scene.system.second_dirs[HERE]
    with Nodes(scene) as nodes:
        nodes.create(scene.topic, *PLACES, min_insync_replicas="2")
        for index, (leader, *_) in enumerate(PLACES):
            for _ in range(3):
                nodes[leader].produce("", batch(), partition=index)
        here = nodes[HERE]

        def moved(label: str, *paths: Path) -> None:
            move(here, label, scene.topic, *paths)
            wanted = {index: str(path) for index, path in enumerate(paths)}
            assert until(lambda: place_of(here, scene.topic) == wanted, CHANGE_S), dirs_of(here, scene.topic)
            caught_up = until(lambda: all(are_equal(scene, index)() for index in (0, 1)), CHANGE_S)
            scene.note(f"{label}: replicas are equal", caught_up)
            for version in (1, 2, 4):
                scene.note(f"{label}: dirs v{version}", dirs_of(here, scene.topic, version))

        moved("one in each", first, second)
        moved("changed", second, first)
        moved("both in the second", second, second)
        move(here, "to a dir of another node", scene.topic, scene.system.log_dirs[1])
        move(nodes[1], "no replica moves elsewhere", scene.topic, second)


@scenario(CLIENT, "a log dir is wiped, and one fails", nodes=3)
def wiped(scene: Scene) -> None:
    first, second = scene.system.log_dirs[HERE], scene.system.second_dirs[HERE]
    with Nodes(scene) as nodes:
        nodes.create(scene.topic, *PLACES, min_insync_replicas="2")
        for index, (leader, *_) in enumerate(PLACES):
            nodes[leader].produce("", batch(), partition=index)
        whole = [(leader, places) for leader, *_ in PLACES for places in ((1, 2, 3),)]

        def in_two() -> None:
            move(nodes[HERE], "", scene.topic, first, second)
            wanted = {0: str(first), 1: str(second)}
            assert until(lambda: place_of(nodes[HERE], scene.topic) == wanted, CHANGE_S)

        def back(label: str) -> None:
            nodes.back()
            nodes.until_placed(scene.topic, *whole)
            scene.note(f"{label}: equal", all(until(are_equal(scene, index), CHANGE_S) for index in (0, 1)))
            scene.note(
                f"{label}: dirs",
                {
                    path: response["error"]
                    for path, response in sorted(dirs_of(nodes[HERE], scene.topic).items())
                },
            )

        in_two()
        nodes.kill(HERE)
        identity = (second / "meta.properties").read_bytes()
        shutil.rmtree(second)
        second.mkdir()
        (second / "meta.properties").write_bytes(identity)  # Kafka takes no dir without
        nodes[1].produce("meanwhile", batch(2))
        back("wiped")
        in_two()
        shutil.rmtree(second)
        second.write_text("no dir any more")
        move(nodes[HERE], "to a dir that fails", scene.topic, second)

        def failed() -> bool:
            move(nodes[HERE], "", scene.topic, second)  # one partition has to use it
            return bool(dirs_of(nodes[HERE], scene.topic)[str(second)]["error"] != "none")

        assert until(failed, CHANGE_S), dirs_of(nodes[HERE], scene.topic)
        scene.note("failed", dirs_of(nodes[HERE], scene.topic))
        assert until(lambda: nodes.places(scene.topic, 1)[1][1] == (1, 2), CHANGE_S), nodes.places(
            scene.topic, 1
        )
        response = nodes[1].wire.ask("metadata", 12, topics=[{"name": scene.topic}])["topics"][0][
            "partitions"
        ]
        scene.note("offline", {part["partition_index"]: part["offline_replicas"] for part in response})
        move(nodes[HERE], "again to a dir that fails", scene.topic, second)
        nodes[2].produce("", batch(2), partition=1)
        nodes.kill(HERE)
        second.unlink()
        second.mkdir()
        (second / "meta.properties").write_bytes(identity)
        back("mended")
