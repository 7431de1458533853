"""Consumers in groups over a fake cluster with a fake coordinator, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.protocol.model import TopicPartition

Play = Callable[..., Any]


async def read(consumer: Any, quiet_s: float = 2.0) -> list[bytes]:
    """The values of everything until nothing comes for `quiet_s`."""
    found: list[bytes] = []
    while batch := await consumer.poll(quiet_s):
        found += [record.value for record in batch]
    return found


def test_one_member_reads_all_and_commits_what_it_finished(play: Play) -> None:
    """After its end another goes on behind."""

    async def scenario(fake: Any, cluster: Any) -> None:
        fake.create("t", 2)
        fake.put("t", 0, b"1", b"2")
        fake.put("t", 1, b"3")
        first = cluster.consumer("t", group="g", auto_offset_reset="earliest")
        assert sorted(await read(first)) == [b"1", b"2", b"3"]
        assert await first.assignment() == (TopicPartition("t", 0), TopicPartition("t", 1))
        await first.close()
        assert fake.committed("g") == {("t", 0): 2, ("t", 1): 1}
        fake.put("t", 0, b"4")
        second = cluster.consumer("t", group="g", auto_offset_reset="earliest")
        assert await read(second) == [b"4"]

    play(scenario)
