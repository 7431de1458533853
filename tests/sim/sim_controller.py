"""A controller in simulation: the Raft core of `quorum.py` with the controller's core over it.

Order, as in production: decide, append, replicate and flush, commit, apply and publish, respond. A leader
that resigns drops its core: uncommitted decisions may be lost, and none of them was acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.controller.controller import Controller, tick_interval_ms
from headrace.controller.metadata_feed import MetadataFeed
from headrace.controller.quorum import events
from headrace.controller.quorum.record_batches import encode_batch
from headrace.controller.readers_io import MetadataReaders
from headrace.protocol.errors import KafkaError, NotControllerError
from headrace.protocol.messages import registry
from headrace.protocol.metadata.records import NoOpRecord
from headrace.protocol.metadata.replay import replay
from quorum import RECORDS_BETWEEN_SNAPSHOTS, SimController
from sim_transport import SimReplies, SimRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster import SimCluster

CLUSTER_ID = "simulated"


class SimControllerNode(SimController):
    """One controller: `core` is set while it is active."""

    cluster: SimCluster  # type: ignore[assignment]

    def __init__(self, cluster: SimCluster, node_id: int, **facts: Any) -> None:
        self.name = f"c{node_id}"
        self.core: Controller | None = None
        self._leads = False
        self.feed: MetadataFeed
        self.readers: MetadataReaders
        self.replies = SimReplies()
        # (end offset to be committed, request, response)
        self._waiting: list[tuple[int, SimRequest, Any]] = []
        super().__init__(cluster, node_id, **facts)  # type: ignore[arg-type]

    def start(self) -> None:
        """Start a process: its image comes from the snapshot, later records when they are committed."""
        if self.is_alive:
            return
        self.core, self._waiting = None, []
        super().start()
        if self.is_alive:
            self._new_feed()
            self._tick_on()

    def die(self, *, power: bool) -> None:
        """End the process and its connections."""
        self.core, self._leads, self._waiting = None, False, []
        super().die(power=power)
        self.cluster.transport.died(self)

    @property
    def is_sound(self) -> bool:
        """Whether a process runs, is not paused, and its disk has no pending fault."""
        return self.is_alive and not self.pause.is_on and self.files.is_sound

    # --- requests -----------------------------------------------------------------------------------------

    def receive(self, request: SimRequest) -> None:
        """Handle a request: respond to a read immediately, to a decision when it is committed."""
        now_ms = self.cluster.world.now_ms
        core = self.core
        try:
            if core is None:
                raise NotControllerError(f"{self.name} is not active")
            if request.api is registry.FETCH_METADATA:
                self.readers.fetch(request, now_ms)  # type: ignore[arg-type]
                return
            decision = core.decide(request.body, now_ms)
        except KafkaError as error:
            self._answer_when_committed(request, error)
            return
        self._append(core, decision.records)
        if self.is_alive:
            self._answer_when_committed(request, decision.reply)

    def gone(self, session: int) -> None:
        """Nothing to do when a client's connection ends."""

    def _answer_when_committed(self, request: SimRequest, answer: Any) -> None:
        """Park the response until the decision is committed. A response without records waits, too: it may
        depend on an uncommitted decision."""
        self._waiting.append((self.log.end_offset if self.core is not None else 0, request, answer))
        self._answer()

    def _answer(self) -> None:
        due = [each for each in self._waiting if each[0] <= self.image.offset + 1]
        self._waiting = [each for each in self._waiting if each[0] > self.image.offset + 1]
        for _, request, answer in due:
            if isinstance(answer, KafkaError):
                self.replies.reply_error(request, answer)
            else:
                self.replies.reply(request, answer)

    def _append(self, core: Controller, records: Sequence[Any]) -> None:
        if records:
            # The quorum also appends its control records to this log.
            gap = self.log.end_offset - core.image.offset - 1
            if gap:
                core.apply(core.image.offset + 1, [NoOpRecord()] * gap)
            core.apply(self.log.end_offset, records)
            core.check()
            self.step(events.AppendRequested((encode_batch(records, self.cluster.world.wall_ms),)))

    # --- effects of the quorum ----------------------------------------------------------------------------

    def _load_snapshot(self, effect: events.LoadSnapshot) -> None:
        super()._load_snapshot(effect)
        self._new_feed()

    def _lead(self, effect: events.BecameLeader) -> None:
        super()._lead(effect)
        # Order: after the other effects of the same step.
        self._leads = True
        self.later_call("begins to decide", 0, self._begin)

    def _resign(self, effect: events.Resigned) -> None:
        super()._resign(effect)
        self.core, self._leads = None, False
        waiting, self._waiting = self._waiting, []
        for _, request, _ in waiting:
            self.replies.reply_error(request, NotControllerError(f"{self.name} resigned"))

    def later_call(self, label: str, delay_ms: int, action: Any) -> None:
        """Schedule a call after a delay; it is dropped if the process has ended by then."""
        life = self.life
        self.cluster.world.after(
            delay_ms,
            f"{self.name} {label}",
            lambda: self.awake(label, action) if self.life == life and self.is_alive else None,
        )

    def _begin(self) -> None:
        if self._leads and self.core is None:
            now_ms = self.cluster.world.now_ms
            self.core = Controller(self.cluster.config, self.random, self.image, now_ms)
            self._append(self.core, self.core.decide_format(CLUSTER_ID))

    def _apply(self, end_offset: int) -> None:
        laws = self.cluster.laws
        laws.on_committed(self, end_offset)
        decisions = []
        for base_offset, records in self.log.committed(self.image.offset + 1, end_offset):
            self.image, _ = replay(self.image, base_offset, records)
            decisions.append(records)
            self.cluster.rules.on_metadata(self.image)
        laws.on_applied(self)
        if self.core is not None and self.core.image.offset == self.image.offset:
            assert self.core.image == self.image, (
                f"MetadataLogMatching: {self.name} applied other records than it decided"
            )
        if decisions:
            self.feed.publish(self.image, decisions)
            self.readers.on_published(self.cluster.world.now_ms)
        self._answer()
        snapshots = self.log.snapshots.ids
        if end_offset - (snapshots[0].end_offset if snapshots else 0) >= RECORDS_BETWEEN_SNAPSHOTS:
            self.log.write_snapshot(self.image, self.cluster.world.wall_ms)
            self.log.checkpoint()

    def _new_feed(self) -> None:
        config, now_ms = self.cluster.config, self.cluster.world.now_ms
        self.feed = MetadataFeed(self.image, config.metadata_tail_records, config.metadata_fetch_max_records)
        self.readers = MetadataReaders(
            self.feed,
            self.replies,  # type: ignore[arg-type]
            limit=config.purgatory_max_requests,
            max_wait_ms=config.metadata_fetch_max_wait_ms,
            now_ms=now_ms,
        )

    def _tick_on(self) -> None:
        interval_ms = tick_interval_ms(self.cluster.config)

        def tick() -> None:
            now_ms = self.cluster.world.now_ms
            self.readers.expire(now_ms)
            core = self.core
            if core is not None:
                core.tick(now_ms)
                while self.core is core and (records := core.decide_expiry(now_ms)):
                    self._append(core, records)
            if self.is_alive:
                self.later_call("tick", interval_ms, tick)

        self.later_call("tick", interval_ms, tick)
