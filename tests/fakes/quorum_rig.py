"""One controller of a quorum, driven event by event, on a fake disk."""

from __future__ import annotations

import random
from typing import Any, TypeVar

from fake_files import FakeFiles
from headrace.controller.config import ControllerConfig
from headrace.controller.quorum import events
from headrace.controller.quorum.metadata_log import METADATA_PARTITION, MetadataLog
from headrace.controller.quorum.raft import Raft
from headrace.controller.quorum.record_batches import encode_batch
from headrace.controller.quorum.voters import Endpoint, ReplicaKey, voter
from headrace.protocol.messages import quorum
from headrace.protocol.metadata.records import ConfigRecord
from headrace.protocol.records.control import VoterSet
from metadata_rig import NOW, a_config

METADATA_DIR = "/metadata"
DIRECTORY = f"{METADATA_DIR}/{METADATA_PARTITION}"
E = TypeVar("E")


def key(node: int, disk: int = 1) -> ReplicaKey:
    """The key of a node with its n-th disk."""
    return ReplicaKey(node, bytes([node]) * 15 + bytes([disk]))


def voters(*nodes: int) -> VoterSet:
    """The voter set of these nodes with their first disks."""
    return VoterSet(tuple(voter(key(node), Endpoint(f"c{node}", 9000)) for node in nodes))


def formatted(*nodes: int) -> FakeFiles:
    """A disk with this voter set."""
    files = FakeFiles()
    MetadataLog.format(files, METADATA_DIR, voters(*nodes), NOW)
    return files


def open_log(files: FakeFiles, segment_bytes: int = 1 << 20) -> MetadataLog:
    """The metadata log on the disk."""
    return MetadataLog.open(files, METADATA_DIR, config=a_config(segment_bytes), wall_ms=NOW)


def batch(text: str) -> bytes:
    """A metadata batch with one decision."""
    return encode_batch([ConfigRecord(4, "", "key", text)], NOW)


class Core:
    """A controller. `effects` are those of the last step; `sent` has all Send effects by correlation id."""

    def __init__(
        self, node: int, files: FakeFiles, *, disk: int = 1, segment_bytes: int = 1 << 20, **keys: Any
    ):
        self.now_ms = 1_000
        self.files = files
        self.log = open_log(files, segment_bytes)
        self.config = ControllerConfig.of({"metadata.log.dir": METADATA_DIR, **keys})
        self.raft = Raft(
            self.config,
            key(node, disk),
            Endpoint(f"c{node}", 9000),
            self.log,
            random.Random(node),
            bootstrap_servers=2,
            now_ms=self.now_ms,
            wall_ms=NOW,
        )
        self.effects: tuple[Any, ...] = ()
        self.sent: dict[int, events.Send] = {}
        self.timer_ms = 0  # the deadline of the timer
        self._requests = 0
        self.step(events.TimerFired())

    def step(self, event: Any) -> tuple[Any, ...]:
        """Process one event, and check the invariants."""
        self.effects = self.raft.step(event, self.now_ms)
        self.raft.check()
        self.timer_ms = next((timer.deadline_ms for timer in self.of(events.SetTimer)), self.timer_ms)
        self.sent.update({send.correlation_id: send for send in self.of(events.Send)})
        return self.effects

    def of(self, kind: type[E]) -> list[E]:
        """The effects of one kind in the last step."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def wait(self, ms: int) -> tuple[Any, ...]:
        """Advance the time, with a timer event every 10 ms; returns all effects."""
        effects: list[Any] = []
        for _ in range(0, ms, 10):
            self.now_ms += 10
            effects += self.step(events.TimerFired())
        self.effects = tuple(effects)
        return self.effects

    def ask(self, body: Any) -> Any:
        """Send a request to the controller; returns the response, or None while it is delayed."""
        self._requests += 1
        self.step(events.RequestReceived(self._requests, body))
        replies = [reply for reply in self.of(events.Reply) if reply.token == self._requests]
        return replies[0].body if replies else None

    def flush(self) -> tuple[Any, ...]:
        """Complete the requested flush."""
        self.log.finish_flush(self._synced())
        return self.step(events.Flushed())

    def _synced(self) -> Any:
        flush = self.log.start_flush()
        if flush is not None:
            flush.sync()
        return flush

    def last(self, kind: type) -> events.Send:
        """The newest Send with a body of this kind."""
        return next(send for send in reversed(self.sent.values()) if isinstance(send.body, kind))

    def answer(self, send: events.Send, body: Any, *frames: bytes) -> tuple[Any, ...]:
        """Deliver the response of another controller."""
        return self.step(events.ResponseReceived(send.correlation_id, body, frames))

    # --- transitions to a role ----------------------------------------------------------------------------

    def elect(self) -> Core:
        """Win an election of three voters; nothing is flushed yet."""
        self.wait(2_000)
        for _ in range(2):
            send = self.last(quorum.VoteRequest)
            granted = quorum.VoteResponse(0, -1, send.body.epoch, vote_granted=True)
            self.answer(send, granted)
        assert self.raft.quorum.leader is not None
        return self

    def activate(self) -> Core:
        """Win an election, and commit the first record of the epoch with voter 2."""
        self.elect()
        while self.log.flushed_offset < self.log.end_offset:
            self.flush()
        self.fetch(2, self.log.end_offset, self.log.last_epoch)
        assert self.raft.is_active
        return self

    def fetch(self, node: int, offset: int, last_epoch: int, *, disk: int = 1, **facts: Any) -> Any:
        """Handle a fetch of another replica; returns the response, or None while it is delayed."""
        fields: dict[str, Any] = {"leader_epoch": self.raft.context.epoch, "high_watermark": 1 << 40}
        fields |= {"max_bytes": 1 << 20, "max_wait_ms": 500, "cluster_id": ""} | facts
        request = quorum.QuorumFetchRequest(
            replica_id=node,
            directory_id=key(node, disk).directory_id,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            **fields,
        )
        return self.ask(request)

    def follow(self, leader: int, epoch: int) -> Core:
        """Deliver BeginQuorumEpoch from another controller."""
        endpoint = quorum.QuorumEndpoint(f"c{leader}", 9000)
        request = quorum.BeginQuorumEpochRequest("", *self.raft.context.key, leader, epoch, endpoint)
        assert self.ask(request).error_code == 0
        assert self.raft.quorum.follower is not None
        return self

    def fetched(self, response: quorum.QuorumFetchResponse, *frames: bytes) -> tuple[Any, ...]:
        """Deliver the leader's response to the fetch in flight."""
        return self.answer(self.last(quorum.QuorumFetchRequest), response, *frames)
