"""Members of one group, a thread each: they join and leave as told, and tell what they are assigned.

After "go" it takes lines: "join 1 2", "leave 1 2", "end". It prints {"member", "at_ns", "partitions"} for a
change, with "has_left" once a member is closed.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from . import clients

if TYPE_CHECKING:
    from ..worker import Clock

POLL_S = 0.01
LOOK_UP_S = 30


def members(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Serve until "end"; the members of `numbers` are connected before it says that it is ready."""
    sys.setswitchinterval(0.001)
    made = KafkaMember if spec["system"] == "kafka" else HeadraceMember
    told = threading.Lock()
    waiting = {number: made(spec, number, told) for number in spec["numbers"]}
    running = {}
    clock.ready()
    clock.start()
    for line in sys.stdin:
        command, *numbers = line.split()
        if command == "end":
            break
        for number in map(int, numbers):
            if command == "join":
                # one that left and comes again is a new client, connected before as well
                running[number] = waiting.pop(number)
                running[number].start()
            else:
                running[number].is_leaving = True
        if command == "leave":
            for number in map(int, numbers):
                running[number].join()
                waiting[number] = made(spec, number, told)
    for member in running.values():
        member.is_leaving = True
    for member in running.values():
        member.join()
    return {**clock.stop(), "failures": [m.failure for m in running.values() if m.failure]}


class Member(threading.Thread):
    """One consumer, which belongs to this thread from `start` on."""

    def __init__(self, spec: dict[str, Any], number: int, told: threading.Lock) -> None:
        super().__init__(name=f"member-{number}", daemon=True)
        self.number, self.topic, self._told = number, spec["topic"], told
        self.has: set[int] = set()
        self.is_leaving = False
        self.failure = ""
        self.consumer = self.connected(spec)

    def run(self) -> None:
        """Join, read (nothing is there) and leave."""
        try:
            self.subscribe()
            while not self.is_leaving:
                self.poll()
            self.consumer.close()
            self.tell(has_left=True)
        except Exception as error:  # noqa: BLE001 - the harness is told, and fails
            self.failure = repr(error)
            self.tell(failure=self.failure)

    def tell(self, **more: Any) -> None:
        """What is assigned now."""
        line = {"member": self.number, "at_ns": time.monotonic_ns(), "partitions": sorted(self.has), **more}
        with self._told:
            print(json.dumps(line), flush=True)

    def assigned(self, _: Any, partitions: list[Any]) -> None:
        """More is assigned."""
        self.has |= {each.partition for each in partitions}
        self.tell()

    def revoked(self, _: Any, partitions: list[Any]) -> None:
        """Less is."""
        self.has -= {each.partition for each in partitions}
        self.tell()

    def connected(self, spec: dict[str, Any]) -> Any:
        """A consumer that has asked for the topic once."""
        raise NotImplementedError

    def subscribe(self) -> None:
        """Join."""
        raise NotImplementedError

    def poll(self) -> None:
        """Serve it for a moment."""
        raise NotImplementedError


class KafkaMember(Member):
    """By confluent-kafka."""

    def connected(self, spec: dict[str, Any]) -> Any:
        """A consumer that has asked for the topic once."""
        consumer = clients.kafka_member(spec)
        consumer.list_topics(self.topic, LOOK_UP_S)
        return consumer

    def subscribe(self) -> None:
        """Join."""
        self.consumer.subscribe([self.topic], on_assign=self.assigned, on_revoke=self.revoked)

    def poll(self) -> None:
        """Serve it for a moment."""
        message = self.consumer.poll(POLL_S)
        if message is not None and message.error() is not None:
            raise RuntimeError(str(message.error()))


class HeadraceMember(Member):
    """By headrace."""

    def connected(self, spec: dict[str, Any]) -> Any:
        """A consumer that has asked for the topic once."""
        from headrace import TopicPartition

        consumer = clients.headrace_member(spec)
        consumer.end_offsets(TopicPartition(self.topic, 0), timeout=LOOK_UP_S)
        return consumer

    def subscribe(self) -> None:
        """Join."""
        self.consumer.subscribe(
            [self.topic], on_assigned=self.assigned, on_revoked=self.revoked, on_lost=self.revoked
        )

    def poll(self) -> None:
        """Serve it for a moment."""
        self.consumer.poll(POLL_S)
