"""The node core without IO: files in memory, scripted metadata records, virtual time, responses in a list."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fake_files import FakeFiles
from headrace.protocol.errors import KafkaError, KafkaStorageError
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import FetchMetadataResponse
from headrace.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ProducePartition,
    ProduceRequest,
)
from headrace.protocol.messages.envelope import Api
from headrace.protocol.metadata.image import TOPIC_RESOURCE, MetadataImage
from headrace.protocol.metadata.records import (
    ConfigRecord,
    FormatRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from headrace.protocol.metadata.replay import image_records, replay
from headrace.protocol.records.header import Buffer
from headrace.protocol.security.identity import ANONYMOUS_IDENTITY, Identity
from headrace.storage_node import effects
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.embedded.contract import CoordinatorFactory
from headrace.storage_node.log.log_manager import LogManager
from headrace.storage_node.node import StorageNode
from node_rig import WALL_MS, batch, values_of

NODE = 1
_FRESH = itertools.count(1)


@dataclass(eq=False)
class FakePeer:
    session: int = 77
    is_connected: bool = True
    client_id: str = "test"
    address: str = ""
    identity: Identity = ANONYMOUS_IDENTITY


@dataclass(eq=False)
class FakeRequest:
    """A request and its response: a body and frames, an error, or `is_dropped`."""

    api: Api
    body: Any
    frames: Sequence[Any] = ()
    peer: FakePeer = field(default_factory=FakePeer)
    answer: Any = None
    answer_frames: list[Any] = field(default_factory=list)
    sent: Sequence[Any] = ()  # buffers of the response
    error: KafkaError | None = None
    is_dropped: bool = False
    begun_s: float = -1.0  # not measured

    @property
    def is_answered(self) -> bool:
        return self.answer is not None or self.error is not None or self.is_dropped

    @property
    def first(self) -> Any:
        """The response to the first entry."""
        assert self.answer is not None, "not answered yet" if self.error is None else self.error
        return self.answer.partitions[0]


class FakeReplies:
    """Asserts that each request gets exactly one response."""

    def reply(self, request: FakeRequest, body: Any, frames: Sequence[Any] = ()) -> None:
        assert not request.is_answered, "answered twice"
        request.answer, request.answer_frames = body, [bytes(frame) for frame in frames]
        request.sent = frames

    def reply_error(self, request: FakeRequest, error: KafkaError) -> None:
        assert not request.is_answered, "answered twice"
        request.error = error

    def no_reply(self, request: FakeRequest) -> None:
        assert not request.is_answered, "answered twice"
        request.is_dropped = True


class CoreRig:
    """A node core on `files`. Effects are kept until the test performs them."""

    def __init__(
        self,
        files: FakeFiles | None = None,
        dirs: str = "/d",
        records: Sequence[Any] = (FormatRecord("c"),),
        node_id: int = NODE,
        coordinators: CoordinatorFactory | None = None,
        **config: Any,
    ) -> None:
        """`records` are the metadata at the node's registration, applied as its first image."""
        self.node_id = node_id
        self.files = FakeFiles() if files is None else files
        self.now_ms = 1_000
        self._timer_ms: int | None = None
        self.room = 1 << 40
        values = {name.replace("_", "."): value for name, value in config.items()}
        self.config = NodeConfig.of(
            {"log.dirs": dirs, "node.id": node_id, "log.dir.reserve.bytes": 0} | values
        )
        for path in self.config.log_dirs:
            self.files.mkdir(path)
        self.files.fsync_directory("/")
        self.manager = LogManager(
            self.files,
            self.config.log_dirs,
            defaults=self.config.log_defaults(),
            new_uuid=lambda: next(_FRESH).to_bytes(16, "big"),
            reserve_bytes=self.config.log_dir_reserve_bytes,
            cordoned_dirs=self.config.cordoned_log_dirs,
        )
        self.manager.open_dirs()
        self.manager.load(WALL_MS)
        self.core = StorageNode(
            self.config,
            self.manager,
            FakeReplies(),
            now_ms=self.now_ms,
            room=lambda: self.room,
            coordinators=coordinators,
        )
        self.core.joined(node_id, 9)
        self.effects: list[Any] = []
        self._checkpoints: list[Any] = []
        self.image = MetadataImage()
        self.records: list[Any] = []
        if records:
            self.metadata(*records)

    # --- metadata -----------------------------------------------------------------------------------------

    def metadata(self, *records: Any, broker_epoch: int = 0) -> int:
        """Apply metadata records; returns the offset of the last."""
        base = self.image.offset + 1
        self.records += records
        self.image = replay(self.image, base, records)[0]
        response = FetchMetadataResponse(0, "", False, base, self.image.offset + 1, tuple(records))
        self.core.follow_metadata(response, broker_epoch, self.now_ms)
        self.check()
        return self.image.offset

    def snapshot(self, image: MetadataImage) -> None:
        """Replace the metadata image."""
        self.image = image
        records = tuple(image_records(image))
        self.core.follow_metadata(
            FetchMetadataResponse(0, "", is_snapshot=True, end_offset=image.offset + 1, records=records),
            0,
            self.now_ms,
        )
        self.check()

    def topic_records(
        self,
        name: str = "t",
        partitions: int = 1,
        *,
        leader: int = NODE,
        replicas: tuple[int, ...] = (NODE,),
        **configs: str,
    ) -> tuple[bytes, list[Any]]:
        topic_id = b"topic" + next(_FRESH).to_bytes(11, "big")
        values = [
            ConfigRecord(TOPIC_RESOURCE, name, key.replace("_", "."), value) for key, value in configs.items()
        ]
        made = [
            PartitionRecord(topic_id, index, replicas, replicas, leader, 0, 0) for index in range(partitions)
        ]
        return topic_id, [TopicRecord(name, topic_id), *values, *made]

    def topic(self, name: str = "t", partitions: int = 1, **facts: Any) -> bytes:
        """Create a topic and apply its metadata."""
        topic_id, records = self.topic_records(name, partitions, **facts)
        self.metadata(*records)
        return topic_id

    def remove(self, topic_id: bytes) -> None:
        self.metadata(RemoveTopicRecord(topic_id))

    def set_leader(self, topic_id: bytes, leader: int) -> None:
        self.metadata(PartitionChangeRecord(topic_id, 0, leader=leader))

    def configure(self, name: str, key: str, value: str | None) -> None:
        self.metadata(ConfigRecord(TOPIC_RESOURCE, name, key, value))

    # --- requests -----------------------------------------------------------------------------------------

    def ask(
        self, api: Api, body: Any, frames: Sequence[Any] = (), peer: FakePeer | None = None
    ) -> FakeRequest:
        request = FakeRequest(api, body, frames, peer or FakePeer())
        self.core.handle(request, self.now_ms, WALL_MS)
        self.check()
        return request

    def produce(
        self,
        topic_id: bytes,
        *data: Buffer,
        acks: int = -1,
        partition: int = 0,
        epoch: int = -1,
        timeout_ms: int = 1_000,
        peer: FakePeer | None = None,
        transactional_id: str | None = None,
        adds_partitions: bool = True,
    ) -> FakeRequest:
        """Produce batches to one partition, with one entry per batch."""
        frames = data or (batch(b"v"),)
        entries = tuple(ProducePartition(topic_id, partition, epoch) for _ in frames)
        body = ProduceRequest(acks, timeout_ms, entries, transactional_id, adds_partitions)
        return self.ask(registry.PRODUCE, body, frames, peer)

    def fetch(
        self,
        topic_id: bytes,
        offset: int = 0,
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        partition: int = 0,
        partition_max_bytes: int = 1 << 20,
        epoch: int = -1,
        isolation: int = 0,
        peer: FakePeer | None = None,
    ) -> FakeRequest:
        entry = FetchPartition(topic_id, partition, offset, partition_max_bytes, epoch)
        body = FetchRequest(max_wait_ms, min_bytes, max_bytes, isolation, (entry,))
        return self.ask(registry.FETCH, body, (), peer)

    def list_offsets(
        self, topic_id: bytes, timestamp: int, *, partition: int = 0, epoch: int = -1, isolation: int = 0
    ) -> FakeRequest:
        entry = ListOffsetsPartition(topic_id, partition, timestamp, epoch)
        request = self.ask(registry.LIST_OFFSETS, ListOffsetsRequest(isolation, (entry,)))
        self.look_up()
        return request

    def values(self, topic_id: bytes, partition: int = 0) -> list[bytes | None]:
        """The values that a consumer reads."""
        request = self.fetch(topic_id, partition=partition)
        self.read_cold()
        assert request.first.error_code == 0, request.first
        return [value for _, value in values_of(request.answer_frames)]

    # --- effects ------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Collect the effects and assert the invariants of every partition."""
        self.effects += self.core.take_effects()
        while self.pop(effects.EndTurn):
            self.core.end_turn(self.now_ms, WALL_MS)
            self.effects += self.core.take_effects()
        for wake in self.pop(effects.WakeAt):
            self._timer_ms = wake.deadline_ms
        for partition in self.core.table.partitions.values():
            partition.check()
        self.core.replicas.fetchers.check()
        self.core.replicas.moves.check()
        self.core.cold_reads.check()
        self.core.recompressor.check()

    def pop(self, kind: type[Any]) -> list[Any]:
        """Remove and return the collected effects of one kind."""
        found = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, kind)]
        return found

    def flush(self) -> int:
        """Perform each requested flush once; returns their number."""
        asked = self.pop(effects.FlushLog)
        for effect in asked:
            log = effect.partition.log
            work = log.start_flush()
            if work is None:
                self.core.flushed(effect.partition, log.recovery_point, self.now_ms)
                continue
            try:
                work.sync()
            except KafkaStorageError as error:
                self.core.flush_failed(effect.partition, error, self.now_ms)
            else:
                log.finish_flush(work)
                self.core.flushed(effect.partition, log.recovery_point, self.now_ms)
        self.check()
        return len(asked)

    def look_up(self) -> None:
        """Perform the requested offset lookups."""
        for effect in self.pop(effects.LookUpOffsets):
            effect.lookup.run()
            self.core.looked_up(effect.lookup, self.now_ms)
        self.check()

    def count(self, steps: int | None = None) -> int:
        """Perform the requested steps of counts of records, and those that follow; their number."""
        done = 0
        while done != steps and (asked := self.pop(effects.CountRecords)):
            for effect in asked:
                effect.work.run()
                self.core.counted(effect.work, self.now_ms, WALL_MS)
                done += 1
            self.check()
        return done

    def read_cold(self, count: int | None = None) -> int:
        """Perform the requested cold reads, or the `count` oldest; returns their number."""
        for effect in self.pop(effects.AdvisePages):
            effect.advice.run()
        asked = self.pop(effects.ReadCold)
        done = asked[:count]
        self.effects += asked[len(done) :]
        for effect in done:
            effect.read.run()
            self.core.cold_read(effect.read, self.now_ms)
            self.check()
        return len(done)

    def recompress(self, count: int | None = None) -> int:
        """Perform `count` or all recompressions, including those requested meanwhile; returns their
        number."""
        done = 0
        while (asked := self.pop(effects.Recompress)) and done != count:
            self.effects += asked[1:]
            asked[0].item.run()
            self.core.recompressed(asked[0].item, self.now_ms, WALL_MS)
            self.check()
            done += 1
        self.effects += asked
        return done

    def read_coordinator_logs(self) -> int:
        """Perform the reads that the coordinators have requested; returns their number."""
        asked = self.pop(effects.ReadCoordinatorLog)
        for effect in asked:
            effect.read.run()
            self.core.coordinator_log_read(effect.read, self.now_ms)
            self.check()
        return len(asked)

    def copy(self) -> int:
        """Perform steps of moves between log dirs until none is requested; returns their number."""
        count = 0
        while asked := self.pop(effects.CopyLog):
            for effect in asked:
                effect.move.run()
                self.core.copied(effect.key, effect.move, self.now_ms)
                self.check()
                count += 1
        return count

    def purge(self) -> None:
        """Perform the requested deletions."""
        for effect in self.pop(effects.DeleteLog):
            effect.log.delete()
        for effect in self.pop(effects.RemoveFiles):
            effect.removal.run()

    def checkpoint_starts(self) -> bool:
        """Write the log start checkpoint if it was requested; returns whether it was."""
        if self.core.table.is_checkpointing or not self.pop(effects.CheckpointStarts):
            return False
        self.begin_checkpoint(only_starts=True)
        self.end_checkpoint()
        return True

    def begin_checkpoint(self, *, only_starts: bool = False) -> None:
        """Begin a write of the checkpoints, which `end_checkpoint` completes."""
        self._checkpoints = self.core.checkpoints_begin(only_starts=only_starts)
        self.check()

    def end_checkpoint(self) -> None:
        """Complete the write that `begin_checkpoint` began."""
        tasks, self._checkpoints = self._checkpoints, []
        for task in tasks:
            task.run()
        self.core.checkpoints_end(tasks, self.now_ms)
        self.check()

    def tick(self, wall_ms: int = WALL_MS) -> None:
        """Advance one second and tick the core."""
        self.core.tick(self.now_ms, wall_ms)
        self.check()

    def notes(self) -> str:
        """All log lines so far, as one text."""
        return "\n".join(note.text for note in self.pop(effects.Note))

    def pass_time(self, milliseconds: int) -> None:
        """Advance the clock, with a tick of the core at each of its deadlines."""
        end_ms = self.now_ms + milliseconds
        while self._timer_ms is not None and self._timer_ms <= end_ms:
            self.now_ms, self._timer_ms = max(self.now_ms, self._timer_ms), None
            self.core.expire(self.now_ms)
            self.check()
        self.now_ms = end_ms

    def ended(self) -> bool:
        """Whether the core has requested the shutdown of the node."""
        return bool(self.pop(effects.EndNode))

    def restarted(
        self, *more: Any, power: str | int | None = None, records: Sequence[Any] | None = None
    ) -> CoreRig:
        """The next process on the same disk, after a crash or a power loss. Its metadata is that of this
        process and `more` records, or only `records`."""
        files = self.files.restart() if power is None else self.files.power_loss(power)
        found = [*self.records, *more] if records is None else records
        return CoreRig(files, ",".join(self.config.log_dirs), found, self.node_id)
