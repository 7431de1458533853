"""The controller core without IO: decide, apply and check, with the test's clock and random numbers."""

import random
from typing import Any

from headrace.controller.config import ControllerConfig
from headrace.controller.controller import Controller
from headrace.protocol.messages import control
from headrace.protocol.metadata.features import OWN_RANGES
from headrace.protocol.metadata.image import MetadataImage


def incarnation(number: int) -> bytes:
    """An incarnation id for a number."""
    return number.to_bytes(16, "big")


class Driver:
    """One controller core with a clock. `ask` handles a request as the server does, without a disk."""

    def __init__(self, seed: int = 0, **config: Any) -> None:
        self.config = ControllerConfig.of({"metadata.log.dir": "/m", **config})
        self.now_ms = 1_000
        self.core = Controller(self.config, random.Random(seed), MetadataImage(), self.now_ms)
        self.records: list[Any] = []
        self.take(self.core.decide_format("cluster-1"))

    @property
    def image(self) -> MetadataImage:
        """The metadata image after all decisions."""
        return self.core.image

    def take(self, records: Any) -> None:
        """Apply records at the end of the log."""
        if records:
            self.core.apply(self.image.offset + 1, records)
            self.records.extend(records)
        self.core.check()

    def ask(self, request: Any) -> Any:
        """Decide and apply a request; returns the response."""
        decision = self.core.decide(request, self.now_ms)
        self.take(decision.records)
        return decision.reply

    def wait(self, ms: int) -> None:
        """Advance the clock in small steps and fence nodes whose session expires."""
        for _ in range(0, ms, 10):
            self.now_ms += 10
            self.core.tick(self.now_ms)
        while records := self.core.decide_expiry(self.now_ms):
            self.take(records)

    def restart(self) -> None:
        """Replace the core by one that replays the log."""
        from headrace.protocol.metadata.replay import replay

        image, _ = replay(MetadataImage(), 0, self.records)
        assert image == self.image
        self.core = Controller(self.config, random.Random(1), image, self.now_ms)

    def register(self, node_id: int, process: int | None = None, **facts: Any) -> Any:
        """Register a node; `process` is the number of its incarnation, by default the node id."""
        defaults: dict[str, Any] = {
            "node_id": node_id,
            "cluster_id": "",
            "incarnation_id": incarnation(node_id if process is None else process),
            "host": "localhost",
            "port": 9000,
            "features": OWN_RANGES,
        }
        return self.ask(control.BrokerRegistrationRequest(**(defaults | facts)))

    def heartbeat(self, node_id: int, **facts: Any) -> Any:
        """A heartbeat of a node that has applied all metadata."""
        broker = self.image.brokers[node_id]
        defaults = {"broker_epoch": broker.broker_epoch, "metadata_offset": self.image.offset}
        return self.ask(control.BrokerHeartbeatRequest(node_id=node_id, **(defaults | facts)))

    def join(self, *node_ids: int, **facts: Any) -> None:
        """Register nodes and unfence them."""
        for node_id in node_ids:
            assert self.register(node_id, **facts).error_code == 0
            assert not self.heartbeat(node_id).is_fenced

    def alter_partition(self, topic: str, number: int, isr: Any, **facts: Any) -> Any:
        """The leader proposes an ISR. `facts` replace fields of the request of an up-to-date leader."""
        partition = self.partitions(topic)[number]
        node_id = facts.pop("node_id", partition.leader)
        sender = self.image.brokers.get(node_id)
        epoch = facts.pop("broker_epoch", sender.broker_epoch if sender else -1)
        brokers = self.image.brokers
        members = tuple(
            each if isinstance(each, tuple) else (each, brokers[each].broker_epoch if each in brokers else -1)
            for each in isr
        )
        defaults = {
            "topic_id": self.image.topics[topic].topic_id,
            "partition": number,
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.partition_epoch,
            "isr": members,
        }
        item = control.AlterPartitionItem(**(defaults | facts))
        reply = self.ask(control.AlterPartitionRequest(node_id, epoch, (item,)))
        return reply if reply.error_code else reply.partitions[0]

    def reassign(self, topic: str, number: int, replicas: Any, **facts: Any) -> int:
        """Reassign one partition (None cancels); returns the error code."""
        item = control.ReassignablePartition(number, replicas)
        request = control.AlterPartitionReassignmentsRequest(
            (control.ReassignableTopic(topic, (item,)),), **facts
        )
        reply = self.ask(request)
        return reply.error_code or reply.results[0].error_code

    def elect(self, election_type: int, topic: str, *numbers: int) -> list[int]:
        """Elect leaders; returns the error codes."""
        reply = self.ask(
            control.ElectLeadersRequest(election_type, (control.TopicPartitions(topic, numbers),))
        )
        return [result.error_code for result in reply.results]

    def fence(self, *node_ids: int) -> None:
        """Fence nodes and end their sessions."""
        for node_id in node_ids:
            assert self.heartbeat(node_id, want_fence=True, want_shutdown=True).is_fenced

    def come_back(self, node_id: int, process: int, *, is_clean: bool, **facts: Any) -> None:
        """Register a new process of a fenced node, after a clean shutdown or not, and unfence it."""
        previous = self.image.brokers[node_id].broker_epoch if is_clean else -1
        assert self.register(node_id, process, previous_broker_epoch=previous, **facts).error_code == 0
        assert not self.heartbeat(node_id).is_fenced

    def configure(self, topic: str, **values: str) -> None:
        """Set configs of a topic ("" for the cluster), named with underscores."""
        resource = control.ConfigResource(2 if topic else 4, topic)
        changes = tuple(
            control.ConfigChange(name.replace("_", "."), 0, value) for name, value in values.items()
        )
        reply = self.ask(control.IncrementalAlterConfigsRequest((control.AlterConfigs(resource, changes),)))
        assert reply.results[0].error_code == 0, reply.results[0].error_detail

    def place(self, name: str, *replicas: Any, **configs: str) -> None:
        """Create a topic with these replicas for its partitions, and configs named with underscores."""
        assignments = tuple(control.ReplicaAssignment(number, each) for number, each in enumerate(replicas))
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        assert self.create(name, assignments=assignments, configs=dotted).error_code == 0

    def create(self, name: str, **spec: Any) -> Any:
        """Create one topic; returns its result."""
        return self.ask(control.CreateTopicsRequest((control.NewTopicSpec(name, **spec),))).topics[0]

    def partitions(self, name: str) -> Any:
        """The partitions of a topic."""
        return self.image.topics[name].partitions
