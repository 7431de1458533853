"""Members of one group, each in a thread: they join and leave by command and report their assignments.

Commands, after "go": "join 1 2", "leave 1 2", "end". Each change of an assignment prints {"member", "at_ns",
"partitions"}, with "has_left" after the member was closed.
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
METADATA_TIMEOUT_S = 30


def members(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Execute commands until "end"; the members `numbers` are connected before it prints "ready"."""
    sys.setswitchinterval(0.001)
    new_member = KafkaMember if spec["system"] == "kafka" else HeadraceMember
    output = threading.Lock()
    waiting = {number: new_member(spec, number, output) for number in spec["numbers"]}
    running = {}
    clock.ready()
    clock.start()
    for line in sys.stdin:
        command, *numbers = line.split()
        if command == "end":
            break
        for number in map(int, numbers):
            if command == "join":
                # a member that rejoins is a new client, connected before, too
                running[number] = waiting.pop(number)
                running[number].start()
            else:
                running[number].is_leaving = True
        if command == "leave":
            for number in map(int, numbers):
                running[number].join()
                waiting[number] = new_member(spec, number, output)
    for member in running.values():
        member.is_leaving = True
    for member in running.values():
        member.join()
    return {**clock.stop(), "failures": [m.failure for m in running.values() if m.failure]}


class Member(threading.Thread):
    """One consumer, used by this thread only from `start` on."""

    def __init__(self, spec: dict[str, Any], number: int, output: threading.Lock) -> None:
        super().__init__(name=f"member-{number}", daemon=True)
        self.number, self.topic, self._output = number, spec["topic"], output
        self.partitions: set[int] = set()
        self.is_leaving = False
        self.failure = ""
        self.consumer = self.connect(spec)

    def run(self) -> None:
        """Join, poll the empty topic, and leave."""
        try:
            self.subscribe()
            while not self.is_leaving:
                self.poll()
            self.consumer.close()
            self.report(has_left=True)
        except Exception as error:  # noqa: BLE001 - reported to the harness, which fails
            self.failure = repr(error)
            self.report(failure=self.failure)

    def report(self, **more: Any) -> None:
        """Print the assignment."""
        line = {
            "member": self.number,
            "at_ns": time.monotonic_ns(),
            "partitions": sorted(self.partitions),
            **more,
        }
        with self._output:
            print(json.dumps(line), flush=True)

    def assigned(self, _: Any, partitions: list[Any]) -> None:
        """Callback of the consumer: more partitions."""
        self.partitions |= {each.partition for each in partitions}
        self.report()

    def revoked(self, _: Any, partitions: list[Any]) -> None:
        """Callback of the consumer: fewer partitions."""
        self.partitions -= {each.partition for each in partitions}
        self.report()

    def connect(self, spec: dict[str, Any]) -> Any:
        """A consumer that has the topic's metadata."""
        raise NotImplementedError

    def subscribe(self) -> None:
        """Join the group."""
        raise NotImplementedError

    def poll(self) -> None:
        """Poll once."""
        raise NotImplementedError


class KafkaMember(Member):
    """A member through confluent_kafka.Consumer."""

    def connect(self, spec: dict[str, Any]) -> Any:
        """A consumer that has the topic's metadata."""
        consumer = clients.kafka_member(spec)
        consumer.list_topics(self.topic, METADATA_TIMEOUT_S)
        return consumer

    def subscribe(self) -> None:
        """Join the group."""
        self.consumer.subscribe([self.topic], on_assign=self.assigned, on_revoke=self.revoked)

    def poll(self) -> None:
        """Poll once."""
        message = self.consumer.poll(POLL_S)
        if message is not None and message.error() is not None:
            raise RuntimeError(str(message.error()))


class HeadraceMember(Member):
    """A member through headrace.Consumer."""

    def connect(self, spec: dict[str, Any]) -> Any:
        """A consumer that has the topic's metadata."""
        from headrace import TopicPartition

        consumer = clients.headrace_member(spec)
        consumer.end_offsets(TopicPartition(self.topic, 0), timeout=METADATA_TIMEOUT_S)
        return consumer

    def subscribe(self) -> None:
        """Join the group."""
        self.consumer.subscribe(
            [self.topic], on_assigned=self.assigned, on_revoked=self.revoked, on_lost=self.revoked
        )

    def poll(self) -> None:
        """Poll once."""
        self.consumer.poll(POLL_S)
