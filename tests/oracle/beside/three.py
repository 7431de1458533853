"""Common parts of scenarios with three nodes: replica placement, and nodes that stop."""

from collections.abc import Iterator
from typing import Any, Self

from headrace.runtime.waiting_io import until

from .asking import Asking
from .scene import Scene

NODES = (1, 2, 3)
CHANGE_S = 30.0
Place = tuple[int, tuple[int, ...]]


class Nodes:
    """A connection to each node that runs."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.by_number = {number: Asking(scene, number) for number in NODES}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.back()
        for each in self.by_number.values():
            each.wire.__exit__()

    def __getitem__(self, number: int) -> Asking:
        return self.by_number[number]

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.by_number))

    def create(self, topic: str, *places: tuple[int, ...], **configs: str) -> str:
        """A topic with a partition for each of these lists of replicas; its id, once every node knows it."""
        made = {
            "name": topic,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [
                {"partition_index": number, "broker_ids": replicas} for number, replicas in enumerate(places)
            ],
            "configs": [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()],
        }
        answer = self[1].wire.ask("create_topics", 7, timeout=10_000, topics=[made])
        assert answer["topics"][0]["error_code"] == "none", answer
        self.until_placed(topic, *((place[0], place) for place in places))
        return str(self[1].wire.ask("metadata", 12, topics=[{"name": topic}])["topics"][0]["topic_id"])

    def until_placed(self, topic: str, *places: Place) -> None:
        """Until every live node reports these leaders and in-sync replicas, by partition."""
        wanted = {number: (leader, tuple(sorted(isr))) for number, (leader, isr) in enumerate(places)}
        found: dict[int, Any] = {}

        def is_so() -> bool:
            found.update({number: self.places(topic, number) for number in self})
            return all(found[number] == wanted for number in self)

        assert until(is_so, CHANGE_S), (topic, wanted, found)

    def until_led(self, topic: str, leader: int) -> None:
        """Until every live node reports this leader of partition 0, -1 for none."""

        def is_so() -> bool:
            return all(self.places(topic, number)[0][0] == leader for number in self)

        assert until(is_so, CHANGE_S), (topic, leader)

    def places(self, topic: str, node: int) -> dict[int, Place]:
        """Leader and in-sync replicas of each partition, as a node reports them."""
        (response,) = self[node].wire.ask("metadata", 12, topics=[{"name": topic}])["topics"]
        return {
            part["partition_index"]: (part["leader_id"], tuple(sorted(part["isr_nodes"])))
            for part in response["partitions"]
        }

    def end(self, number: int) -> None:
        """Stop a node cleanly."""
        self.by_number.pop(number).wire.__exit__()
        self.scene.system.end(number)

    def kill(self, number: int) -> None:
        """Without a notice to the controller."""
        self.by_number.pop(number).wire.__exit__()
        self.scene.system.kill(number)

    def back(self) -> None:
        """Start those that do not run, and wait until each node sees all three."""
        for number in set(NODES) - set(self.by_number):
            self.scene.system.restart(number)
            self.by_number[number] = Asking(self.scene, number)

        def all_there() -> bool:
            response = [self[number].wire.ask("metadata", 12, topics=[])["brokers"] for number in self]
            return all(len(each) == len(NODES) for each in response)

        assert until(all_there, CHANGE_S)


def plain(answer: Any) -> Any:
    """An answer without what is in no order, or any node's to be."""
    if isinstance(answer, list):
        return [plain(each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    response = {name: plain(each) for name, each in answer.items()}
    for name in ("isr_nodes", "offline_replicas", "eligible_leader_replicas", "last_known_elr"):
        if response.get(name):
            response[name] = sorted(response[name])
    if response.get("controller_id", -1) > 0:  # any node that can pass on what is for a controller
        response["controller_id"] = "a node"
    return response
