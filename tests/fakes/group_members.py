"""Consumers of one group on a fake cluster, under each protocol."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from headrace.protocol.model import TopicPartition

KINDS: dict[str, dict[str, Any]] = {
    "eager": {"assignors": ["range"]},
    "cooperative": {"assignors": ["cooperative-sticky"]},
    "new": {"group_protocol": "consumer"},
}
each_kind = pytest.mark.parametrize("kind", sorted(KINDS))


def member(cluster: Any, kind: str = "eager", **options: Any) -> Any:
    """One consumer of group g; with `topics` None it has no subscription yet."""
    topics = options.pop("topics", ("t",))
    return cluster.consumer(
        *(topics or ()), group="g", auto_offset_reset="earliest", **{**KINDS[kind], **options}
    )


async def read(consumer: Any, quiet_s: float = 2.0) -> list[bytes]:
    """The values of records, up to the first pause of `quiet_s` without one."""
    found: list[bytes] = []
    while batch := await consumer.poll(quiet_s):
        found += [record.value for record in batch]
    return found


async def until(condition: Callable[[], Any], *consumers: Any) -> None:
    """Let consumers poll until the condition holds."""
    for _ in range(600):
        if condition():
            return
        for consumer in consumers:
            await consumer.poll(0.05)
        await asyncio.sleep(0.05)
    raise AssertionError("the condition never held")


def owned(consumer: Any) -> tuple[TopicPartition, ...]:
    found: tuple[TopicPartition, ...] = consumer._engine.assignment()
    return found


class RecordingListener:
    """A listener that records its calls."""

    def __init__(self) -> None:
        self.events: list[tuple[str, tuple[TopicPartition, ...]]] = []

    def on_assigned(self, _consumer: Any, tps: Any) -> None:
        self.events.append(("assigned", tps))

    def on_revoked(self, _consumer: Any, tps: Any) -> None:
        self.events.append(("revoked", tps))

    def on_lost(self, _consumer: Any, tps: Any) -> None:
        self.events.append(("lost", tps))
