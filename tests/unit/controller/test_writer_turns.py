"""Turns of the decision writer, with the real core and log: slow requests get no node fenced."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from controller_kit import Driver, incarnation
from headrace.controller.metadata_feed import MetadataFeed
from headrace.controller.quorum.metadata_log import MetadataLog, metadata_log_config
from headrace.controller.quorum.record_batches import encode_batch
from headrace.controller.writer_io import MAX_FOLLOWED, DecisionWriter
from headrace.protocol.errors import ThrottlingQuotaExceededError
from headrace.protocol.messages import control
from headrace.protocol.metadata.image import MetadataImage
from headrace.runtime.clock_io import monotonic_ms, wall_ms
from headrace.runtime.config import MIB
from headrace.runtime.files.files_io import OsFiles
from headrace.runtime.incarnation import HALF, Deaths
from node_rig import until

MAX_WAITING = 100


class Request:
    """A request of the one connection."""

    peer = SimpleNamespace(key=b"connection")

    def __init__(self, body: Any) -> None:
        self.body = body


class Replies:
    """The router: records the requests that were answered, in order, and those that were refused."""

    def __init__(self) -> None:
        self.answered: list[Request] = []
        self.refused: list[tuple[Request, Any]] = []
        self.pending_response_bytes = 0

    def reply(self, request: Request, _body: Any) -> None:
        self.answered.append(request)

    def reply_error(self, request: Request, error: Any) -> None:
        self.refused.append((request, error))


class Rig:
    """A writer over the core of `driver`."""

    def __init__(self, driver: Driver, directory: Path, *, image: MetadataImage | None = None) -> None:
        """With an `image` it follows, from that image on."""
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
        """As a single voter with an instant disk."""
        for batch in batches:
            self.log.append_batch(batch, 1, wall_ms())
        self.log.flush()
        self.log.high_watermark = self.log.end_offset
        if self.writer is not None:
            self.writer.on_committed(self.log.end_offset)

    def heartbeat(self) -> Request:
        epoch = self.driver.image.brokers[1].broker_epoch
        return Request(control.BrokerHeartbeatRequest(1, epoch, self.driver.image.offset))

    async def answer(self, count: int) -> int:
        """Run until so many are answered; the number of the loop's turns in which responses were sent."""
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


def slow() -> Request:
    """The creation of two thousand partitions, validated only: some 20 ms and no records."""
    return Request(control.CreateTopicsRequest((control.NewTopicSpec("t", 2_000, 1),), 1_000, True))


async def test_no_node_is_fenced_for_a_stall_of_the_controller(driver: Driver, tmp_path: Path) -> None:
    """The controller resumes after ten seconds, or after a long decision: no heartbeat could be received.
    Nodes that send none from then on are fenced after a session timeout."""
    driver.now_ms = monotonic_ms() - 10_000
    driver.core.tick(driver.now_ms)
    driver.join(1)

    rig = Rig(driver, tmp_path)
    rig.writer._decide_group(driver.core)
    rig.log.close()
    assert not driver.image.brokers[1].is_fenced
    driver.wait(20_000)
    assert driver.image.brokers[1].is_fenced


async def test_the_loop_turns_between_decisions(driver: Driver, tmp_path: Path) -> None:
    """A hundred expensive requests that change nothing."""
    driver.join(1)
    rig = Rig(driver, tmp_path)
    for _ in range(MAX_WAITING):
        rig.writer.submit(slow())
    assert await rig.answer(MAX_WAITING) > 5


async def test_a_heartbeat_passes_a_full_queue(driver: Driver, tmp_path: Path) -> None:
    """Further slow requests are refused; the heartbeat is accepted and answered with the first group."""
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


@pytest.mark.parametrize("is_elected", [False, True])
async def test_committed_records_are_applied_in_turns(
    driver: Driver, tmp_path: Path, is_elected: bool
) -> None:
    """Three thousand records at once: the loop turns in between. A leader that is elected meanwhile applies
    the rest before it decides."""
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


async def test_large_responses_wait_until_others_are_read(driver: Driver, tmp_path: Path) -> None:
    """Requests are accepted before the first response is unread: later descriptions are refused, heartbeats
    and elections are not."""
    driver.join(1)
    rig = Rig(driver, tmp_path)
    rig.replies.pending_response_bytes = 2 * MIB
    describe, beat = (
        Request(control.DescribeConfigsRequest((control.ConfigResource(2, "t"),))),
        rig.heartbeat(),
    )
    rig.writer.submit(describe)
    rig.writer.submit(beat)
    await rig.answer(2)
    assert rig.replies.answered == [beat]
    ((request, error),) = rig.replies.refused
    assert request is describe
    assert isinstance(error, ThrottlingQuotaExceededError)


def ended(number: int) -> Deaths:
    """The notice that the process of that number has ended."""
    return Deaths(processes=frozenset((incarnation(number)[HALF:],)))


async def test_a_death_notice_counts_in_this_term_and_in_the_next(tmp_path: Path) -> None:
    """The active controller fences the process at once. A notice that arrives during another controller's
    term is kept; one of an unregistered process is not."""
    driver = Driver(**{"broker.session.timeout.ms": 3_600_000})
    driver.now_ms = monotonic_ms()
    driver.core.tick(driver.now_ms)
    driver.join(1, 2)

    def fenced() -> list[bool]:
        return [driver.image.brokers[node_id].is_fenced for node_id in (1, 2)]

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


async def test_a_wrong_death_notice_is_used_once(tmp_path: Path) -> None:
    """The process is alive and sends heartbeats: notices of others do not fence it again."""
    driver = Driver(**{"broker.session.timeout.ms": 3_600_000})
    driver.now_ms = monotonic_ms()
    driver.core.tick(driver.now_ms)
    driver.join(1, 2)

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
