"""Kill the leader under load, five times, and count acknowledged, duplicate and lost records.

Three nodes, three replicas of everything, acks=all. Each time the leader of partition 0 is killed; the load
continues with the next leader, then the node restarts and catches up.

Run: python examples/bounce_leaders.py
"""

from __future__ import annotations

import itertools
import logging
import sys
import threading
import time
from collections import Counter
from typing import Any

import headrace

TOPIC = headrace.NewTopic("orders", partitions=3, replication_factor=3, configs={"min.insync.replicas": 2})
BOUNCES = 5
ACKS_BETWEEN = 500
PATIENCE_S = 120.0


class Load:
    """Sends numbered records until it is stopped, and records the times of acknowledgements."""

    def __init__(self, producer: headrace.Producer[Any, Any]) -> None:
        self.acked: list[tuple[float, bytes]] = []
        self._producer = producer
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """Stop sending, and wait for records in flight."""
        self._stop.set()
        self._thread.join()
        self._producer.flush(PATIENCE_S)

    def longest_pause_s(self) -> float:
        """The longest time without an acknowledgement."""
        times = [when for when, _ in self.acked]
        return max(after - before for before, after in itertools.pairwise(times))

    def _run(self) -> None:
        for number in itertools.count():
            if self._stop.wait(0.001):
                return
            value = b"order %d" % number
            self._producer.send(TOPIC.name, value).add_done_callback(self._note(value))

    def _note(self, value: bytes) -> Any:
        def done(future: Any) -> None:
            if future.exception() is None:
                self.acked.append((time.monotonic(), value))

        return done


def wait_until(is_so: Any, what: str) -> None:
    """Poll the condition until it is met."""
    ends_at, never = time.monotonic() + PATIENCE_S, threading.Event()
    while not is_so():
        if time.monotonic() > ends_at:
            raise TimeoutError(what)
        never.wait(0.02)


def bounce(cluster: headrace.LocalCluster, admin: headrace.Admin, load: Load) -> None:
    """Kill the leader of partition 0, wait until the load continues, restart the node, and wait until it is
    in every ISR."""
    leader = admin.describe_topics(TOPIC.name)[TOPIC.name].partitions[0].leader
    assert leader is not None
    cluster.kill_node(leader - 1)
    print(f"killed node {leader}, the leader of partition 0")
    before = len(load.acked)
    wait_until(lambda: len(load.acked) > before + ACKS_BETWEEN, "the load continues")
    cluster.restart_node(leader - 1)

    def is_whole() -> bool:
        return all(len(each.isr) == 3 for each in admin.describe_topics(TOPIC.name)[TOPIC.name].partitions)

    wait_until(is_whole, "every replica is in sync")


def read_all(cluster: headrace.LocalCluster) -> Counter[bytes]:
    """The number of copies of each record."""
    with cluster.consumer(TOPIC.name, auto_offset_reset="earliest") as consumer:
        ends, found = consumer.end_offsets(), Counter[bytes]()
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            found.update(record.value for record in consumer.poll(1.0))
    return found


def main() -> int:
    """The number of acknowledged records that are missing."""
    with headrace.local(nodes=3) as cluster, cluster.admin() as admin:
        admin.create_topics(TOPIC).raise_for_errors()
        with cluster.producer(acks="all", linger_ms=1) as producer:
            load = Load(producer)
            try:
                wait_until(lambda: len(load.acked) > ACKS_BETWEEN, "the load begins")
                for _ in range(BOUNCES):
                    bounce(cluster, admin, load)
            finally:
                load.stop()
        found = read_all(cluster)
    lost = sum(not found[value] for _, value in load.acked)
    print(f"acked          {len(load.acked):5}")
    print(f"duplicated     {sum(count > 1 for count in found.values()):5}")
    print(f"longest pause  {load.longest_pause_s():5.2f} s")
    print(f"lost           {lost:5}")
    return lost


if __name__ == "__main__":
    logging.getLogger("headrace.controller").setLevel(
        logging.ERROR
    )  # it kills nodes: warnings about that are expected
    sys.exit(1 if main() else 0)
