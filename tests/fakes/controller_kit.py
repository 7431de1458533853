"""A controller's core driven by hand: decide, apply, check, with the time and the randomness of the test."""

from __future__ import annotations

import random
from typing import Any

from headrace.controller.config import ControllerConfig
from headrace.controller.controller import Controller
from headrace.protocol.messages.control import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    CreateTopicsRequest,
    NewTopicSpec,
)
from headrace.protocol.metadata.image import MetadataImage


def incarnation(number: int) -> bytes:
    """The incarnation id number `number`."""
    return number.to_bytes(16, "big")


class Driver:
    """One core with a clock. `ask` is what the shell does with a request, without a disk."""

    def __init__(self, seed: int = 0, **config: Any) -> None:
        self.config = ControllerConfig.of({"metadata.log.dir": "/m", **config})
        self.now_ms = 1_000
        self.core = Controller(self.config, random.Random(seed), MetadataImage(), self.now_ms)
        self.records: list[Any] = []
        self.take(self.core.decide_format("cluster-1"))

    @property
    def image(self) -> MetadataImage:
        """What is decided by now."""
        return self.core.image

    def take(self, records: Any) -> None:
        """Apply records at the end of the history."""
        if records:
            self.core.apply(self.image.offset + 1, records)
            self.records.extend(records)
        self.core.check()

    def ask(self, request: Any) -> Any:
        """Decide, apply, and give the reply."""
        decision = self.core.decide(request, self.now_ms)
        self.take(decision.records)
        return decision.reply

    def wait(self, ms: int) -> None:
        """Let time pass in small steps, so that silent nodes are fenced."""
        for _ in range(0, ms, 10):
            self.now_ms += 10
            self.core.tick(self.now_ms)
        while records := self.core.decide_expiry(self.now_ms):
            self.take(records)

    def restart(self) -> None:
        """A new process over the same history."""
        from headrace.protocol.metadata.replay import replay

        image, _ = replay(MetadataImage(), 0, self.records)
        assert image == self.image
        self.core = Controller(self.config, random.Random(1), image, self.now_ms)

    def register(self, node_id: int, process: int | None = None, **facts: Any) -> Any:
        """Register a node; its process is numbered like the node unless said."""
        defaults: dict[str, Any] = {
            "node_id": node_id,
            "cluster_id": "",
            "incarnation_id": incarnation(node_id if process is None else process),
            "host": "localhost",
            "port": 9000,
        }
        return self.ask(BrokerRegistrationRequest(**(defaults | facts)))

    def beat(self, node_id: int, **facts: Any) -> Any:
        """A heartbeat of a node that has applied all metadata."""
        broker = self.image.brokers[node_id]
        defaults = {"broker_epoch": broker.broker_epoch, "metadata_offset": self.image.offset}
        return self.ask(BrokerHeartbeatRequest(node_id=node_id, **(defaults | facts)))

    def join(self, *node_ids: int, **facts: Any) -> None:
        """Register nodes and let them catch up."""
        for node_id in node_ids:
            assert self.register(node_id, **facts).error_code == 0
            assert not self.beat(node_id).is_fenced

    def create(self, name: str, **spec: Any) -> Any:
        """Create one topic; its part of the answer."""
        return self.ask(CreateTopicsRequest((NewTopicSpec(name, **spec),))).topics[0]

    def partitions(self, name: str) -> Any:
        """The partitions of a topic."""
        return self.image.topics[name].partitions
