"""Timeouts bound the calls of clients while no process of the cluster runs."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import headrace
import pytest
from headrace import TopicPartition
from headrace.protocol.errors import HeadraceError
from waiting import PATIENCE_S, wait_for

HOUR_MS = 3_600_000
SLOW = {"request_timeout_ms": HOUR_MS, "default_api_timeout_ms": HOUR_MS}
TIMEOUT_S = 0.5
PLACE = TopicPartition("t", 0)


@pytest.mark.parametrize("is_paused", [True, False], ids=["silent", "gone"])
def test_calls_end_while_the_cluster_is_down(make_cluster: Any, is_paused: bool) -> None:
    """While an auto-commit with a timeout of an hour is in flight, calls with half a second end in time."""
    cluster = make_cluster(nodes=1, config={"offsets.topic.replication.factor": 1})
    cluster.create_topic("t", replication=1)
    bootstrap = cluster.bootstrap
    admin = headrace.Admin(bootstrap, **SLOW)
    consumer = headrace.Consumer(
        "t", bootstrap=bootstrap, group="g", auto_offset_reset="earliest", auto_commit_interval_ms=100, **SLOW
    )
    with headrace.Producer(bootstrap) as producer:
        producer.send("t", b"x").result(PATIENCE_S)
    wait_for(lambda: bool(consumer.poll(1)), "the record is delivered")
    for server in cluster.servers.values():
        server.pause() if is_paused else server.kill()
    calls: dict[str, Callable[[], Any]] = {
        "poll": lambda: consumer.poll(TIMEOUT_S),
        "commit": lambda: consumer.commit({PLACE: 1}, timeout=TIMEOUT_S),
        "committed": lambda: consumer.committed(PLACE, timeout=TIMEOUT_S),
        "end_offsets": lambda: consumer.end_offsets(PLACE, timeout=TIMEOUT_S),
        "list_topics": lambda: admin.list_topics(timeout=TIMEOUT_S),
        "create_topics": lambda: admin.create_topics(headrace.NewTopic("u"), timeout=TIMEOUT_S),
        "describe_groups": lambda: admin.describe_groups("g", timeout=TIMEOUT_S),
        "close of the consumer": lambda: consumer.close(TIMEOUT_S),
        "close of the admin": lambda: admin.close(TIMEOUT_S),
    }
    for name, call in calls.items():
        assert ends(call), f"{name} does not end"


def ends(call: Callable[[], Any]) -> bool:
    """Whether the call returns or raises in time."""

    def run() -> None:
        with suppress(HeadraceError):
            call()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return not thread.is_alive()
