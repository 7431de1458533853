"""Whose turn it is at the decision writer, with the real core and log: nobody is fenced because of others."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from controller_kit import Driver, incarnation
from headrace.controller.metadata_feed import MetadataFeed
from headrace.controller.quorum.metadata_log import MetadataLog, metadata_log_config
from headrace.controller.quorum.record_batches import encode_batch
from headrace.controller.writer_io import MAX_FOLLOWED, DecisionWriter
from headrace.protocol.errors import ThrottlingQuotaExceededError
from headrace.protocol.messages.control import (
    BrokerHeartbeatRequest,
    ConfigResource,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    NewTopicSpec,
)
from headrace.protocol.metadata.image import MetadataImage
from headrace.runtime.clock_io import monotonic_ms, wall_ms
from headrace.runtime.config import MIB
from headrace.runtime.files.files_io import OsFiles
from headrace.runtime.incarnation import HALF, Deaths
from node_rig import run, until

if TYPE_CHECKING:
    from pathlib import Path

MAX_WAITING = 100


class Asked:
    """A request of the one connection."""

    peer = SimpleNamespace(key=b"connection")

    def __init__(self, body: Any) -> None:
        self.body = body


class Replies:
    """The router's face: who was answered, in order, and who was refused."""

    def __init__(self) -> None:
        self.answered: list[Asked] = []
        self.refused: list[tuple[Asked, Any]] = []
        self.pending_response_bytes = 0

    def reply(self, request: Asked, _body: Any) -> None:
        self.answered.append(request)

    def reply_error(self, request: Asked, error: Any) -> None:
        self.refused.append((request, error))


class Rig:
    """A writer over the core of `driver`."""

    def __init__(self, driver: Driver, directory: Path, *, image: MetadataImage | None = None) -> None:
        """With an `image` it only follows, and knows no more than that."""
        self.driver = driver
        self.replies = Replies()
        self.writer: Any = None
        config = metadata_log_config(64 * MIB)
        self.log = MetadataLog.open(OsFiles(), str(directory), config=config, wall_ms=wall_ms())
        self.append(tuple(encode_batch([record], wall_ms()) for record in driver.records))
        self.feed = MetadataFeed(driver.image if image is None else image, 1_000, 1_000)
        self.writer = DecisionWriter(
            self,
            self.log,
            self.feed,
            self.replies,  # type: ignore[arg-type]
            lambda _image: driver.core,
            new_cluster_id=lambda: "",
            max_waiting=MAX_WAITING,
            max_unread_bytes=MIB,
            on_publish=lambda: None,
        )
        if image is None:
            self.writer.on_leader()

    def append(self, batches: tuple[bytes, ...]) -> None:
        """As the only voter of a quorum does, with a disk that takes no time."""
        for batch in batches:
            self.log.append_batch(batch, 1, wall_ms())
        self.log.flush()
        self.log.high_watermark = self.log.end_offset
        if self.writer is not None:
            self.writer.on_committed(self.log.end_offset)

    def heartbeat(self) -> Asked:
        epoch = self.driver.image.brokers[1].broker_epoch
        return Asked(BrokerHeartbeatRequest(1, epoch, self.driver.image.offset))

    async def answer(self, count: int) -> int:
        """Run until so many have an answer; in how many turns of the loop one or more of them came."""
        running = asyncio.create_task(self.writer.run())
        steps, before = 0, 0
        while before < count:
            await asyncio.sleep(0)
            now = len(self.replies.answered) + len(self.replies.refused)
            steps += now > before
            before = now
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        self.log.close()
        return steps


def slow() -> Asked:
    """A creation of two thousand partitions that is only to be checked: some 20 ms, and no records."""
    return Asked(CreateTopicsRequest((NewTopicSpec("t", 2_000, 1),), 1_000, True))


def test_nobody_is_fenced_for_the_time_in_which_this_process_stood_still(tmp_path: Path) -> None:
    """The controller wakes after ten seconds, or from a long decision: it has heard nobody, but nobody could
    be heard. Whoever is silent from now on is fenced when the session has run out again."""
    driver = Driver()
    driver.now_ms = monotonic_ms() - 10_000
    driver.core.tick(driver.now_ms)
    driver.join(1)

    async def scenario() -> None:
        rig = Rig(driver, tmp_path)
        rig.writer._decide_group(driver.core)
        rig.log.close()

    run(scenario)
    assert not driver.image.brokers[1].is_fenced
    driver.wait(20_000)
    assert driver.image.brokers[1].is_fenced


def test_decisions_give_way_to_the_sockets(tmp_path: Path) -> None:
    """A hundred expensive requests that change nothing: the loop turns many times before the last."""

    async def scenario() -> None:
        driver = Driver()
        driver.join(1)
        rig = Rig(driver, tmp_path)
        for _ in range(MAX_WAITING):
            rig.writer.submit(slow())
        assert await rig.answer(MAX_WAITING) > 5

    run(scenario)


def test_a_heartbeat_passes_a_full_queue(tmp_path: Path) -> None:
    """Further slow requests are refused, the heartbeat is let in, and is answered with the first group."""

    async def scenario() -> None:
        driver = Driver()
        driver.join(1)
        rig = Rig(driver, tmp_path)
        for _ in range(MAX_WAITING):
            rig.writer.submit(slow())
        refused = False
        try:
            rig.writer.submit(slow())
        except ThrottlingQuotaExceededError:
            refused = True
        assert refused
        beat = rig.heartbeat()
        rig.writer.submit(beat)
        await rig.answer(1)
        assert rig.replies.answered[0] is beat

    run(scenario)


@pytest.mark.parametrize("is_elected", [False, True])
def test_what_is_committed_is_followed_in_turns(tmp_path: Path, is_elected: bool) -> None:
    """Three thousand records at once: the loop turns in between. Who is elected meanwhile applies the rest
    before it decides."""

    async def scenario() -> None:
        driver = Driver()
        driver.join(1)
        driver.create("t", num_partitions=3_000, replication_factor=1)
        rig = Rig(driver, tmp_path, image=MetadataImage())
        rig.writer.on_committed(rig.log.end_offset)
        assert rig.feed.image.offset == MAX_FOLLOWED - 1
        if is_elected:
            rig.writer.on_leader()
        else:
            running = asyncio.create_task(rig.writer.run())
            await until(lambda: rig.feed.image.offset == driver.image.offset)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        rig.log.close()
        assert rig.feed.image == driver.image

    run(scenario)


def test_large_answers_wait_until_the_others_are_read(tmp_path: Path) -> None:
    """Questions are let in before the first answer lies unread: descriptions are refused from then
    on, and what keeps the cluster alive is decided all the same."""

    async def scenario() -> None:
        driver = Driver()
        driver.join(1)
        rig = Rig(driver, tmp_path)
        rig.replies.pending_response_bytes = 2 * MIB
        describe, beat = Asked(DescribeConfigsRequest((ConfigResource(2, "t"),))), rig.heartbeat()
        rig.writer.submit(describe)
        rig.writer.submit(beat)
        await rig.answer(2)
        assert rig.replies.answered == [beat]
        ((who, error),) = rig.replies.refused
        assert who is describe
        assert isinstance(error, ThrottlingQuotaExceededError)

    run(scenario)


def ended(number: int) -> Deaths:
    """What a host says when the process of that number is gone."""
    return Deaths(processes=frozenset((incarnation(number)[HALF:],)))


def test_a_notice_of_an_end_counts_in_this_term_and_in_the_next(tmp_path: Path) -> None:
    """Whoever leads fences that process at once. A notice that comes while another controller leads, or none,
    is kept; one of a process that nobody registered is not."""
    driver = Driver(**{"broker.session.timeout.ms": 3_600_000})
    driver.now_ms = monotonic_ms()
    driver.core.tick(driver.now_ms)
    driver.join(1, 2)

    def fenced() -> list[bool]:
        return [driver.image.brokers[node_id].is_fenced for node_id in (1, 2)]

    async def scenario() -> None:
        rig = Rig(driver, tmp_path)
        rig.writer.note_ended(ended(9))
        rig.writer._decide_group(driver.core)
        assert fenced() == [False, False]
        rig.writer.note_ended(ended(1))
        rig.writer._decide_group(driver.core)
        assert fenced() == [True, False]
        rig.writer.on_resigned()
        rig.writer.note_ended(ended(2))
        assert fenced() == [True, False]
        rig.writer.on_leader()
        rig.writer._decide_group(driver.core)
        assert fenced() == [True, True]
        rig.log.close()

    run(scenario)


def test_a_wrong_notice_is_used_once(tmp_path: Path) -> None:
    """The process lives and is heard: notices of others do not fence it again."""
    driver = Driver(**{"broker.session.timeout.ms": 3_600_000})
    driver.now_ms = monotonic_ms()
    driver.core.tick(driver.now_ms)
    driver.join(1, 2)

    async def scenario() -> None:
        rig = Rig(driver, tmp_path)
        rig.writer.note_ended(ended(1))
        rig.writer._decide_group(driver.core)
        rig.writer.submit(rig.heartbeat())
        rig.writer._decide_group(driver.core)
        assert not driver.image.brokers[1].is_fenced
        rig.writer.note_ended(ended(2))
        rig.writer._decide_group(driver.core)
        assert not driver.image.brokers[1].is_fenced
        assert driver.image.brokers[2].is_fenced
        rig.log.close()

    run(scenario)
