"""The controller quorum in simulation: production cores over fake disks and a fake network.

A run has three phases: controllers start and write; faults of all kinds; all faults end, and the quorum must
make progress in bounded virtual time. The laws are checked after every event (quorum_laws.py).
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from fake_files import Crash, FakeFiles
from headrace.controller.config import ControllerConfig
from headrace.controller.quorum import events
from headrace.controller.quorum.metadata_log import MetadataLog, metadata_log_config
from headrace.controller.quorum.raft import Raft
from headrace.controller.quorum.record_batches import encode_batch
from headrace.controller.quorum.roles import Role
from headrace.controller.quorum.voters import Endpoint, ReplicaKey, keys_of, voter
from headrace.protocol.errors import KafkaStorageError
from headrace.protocol.messages import quorum as messages
from headrace.protocol.metadata.records import ConfigRecord
from headrace.protocol.metadata.replay import replay
from headrace.protocol.records.control import VoterSet
from headrace.runtime.effect_performer import EffectPerformer, ignore, on
from network import FAIR, Network, Weather
from quorum_laws import Laws
from world import Pause, World, uncollected

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from headrace.protocol.metadata.image import MetadataImage
    from headrace.protocol.records.header import Buffer

METADATA_DIR = "/metadata"
SEGMENT_BYTES = 3000
RECORDS_BETWEEN_SNAPSHOTS = 40


def log_config() -> Any:
    """The config of production, with small segments, so that log start offsets advance."""
    config = metadata_log_config(64 * 2**20)
    object.__setattr__(config, "segment_bytes", SEGMENT_BYTES)
    return config


LOG_CONFIG = log_config()
TIMER_FIRED, FLUSHED = events.TimerFired(), events.Flushed()


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run; `draw` makes them from a seed."""

    voters: int = 3
    observers: int = 1
    fault_ms: int = 25_000
    fault_gap_ms: int = 700  # mean
    weather: Weather = FAIR
    auto_join: bool = True
    faults: tuple[str, ...] = ()
    write_gap_ms: int = 60

    @classmethod
    def draw(cls, random: random.Random) -> Plan:
        """A random plan; each seed has one kind of fault, so that common faults do not hide rare ones."""
        kinds = (
            "crash",
            "power",
            "io",
            "cut",
            "isolate",
            "split",
            "pause",
            "clog",
            "weather",
            "stop",
            "voters",
        )
        faults = tuple(kind for kind in (*kinds, "disk") if random.random() < 0.6) or ("crash",)
        return cls(
            voters=random.choice((1, 3, 3, 3, 5)),
            observers=random.choice((0, 1, 2)),
            fault_gap_ms=random.choice((150, 400, 1000)),
            weather=Weather(
                min_delay_ms=random.choice((0, 1, 20)),
                mean_delay_ms=random.choice((1, 5, 40)),
                loss=random.choice((0.0, 0.0, 0.02, 0.1)),
                duplicate=random.choice((0.0, 0.05)),
                is_ordered=random.random() < 0.5,
            ),
            auto_join=random.random() < 0.7,
            faults=faults,
            write_gap_ms=random.choice((20, 60, 200)),
        )


class SimController:
    """One controller: its disk, and its core while a process runs. `start` begins the next process."""

    def __init__(self, cluster: SimQuorum, node_id: int, *, voters: VoterSet | None) -> None:
        self.cluster, self.node_id = cluster, node_id
        self.random = cluster.world.stream(f"controller-{node_id}")
        self.life = 0
        self.raft: Raft | None = None
        self.performer = self._new_performer()
        self.log: MetadataLog
        self.image: MetadataImage
        self.pause = Pause(cluster.world)
        self.has_bad_disk = False
        self.key = ReplicaKey(node_id, b"")
        self._timer: Any = None
        self._writes: dict[int, str] = {}  # by offset: unacknowledged writes of this leader
        self.new_disk(voters)

    # --- starts and ends ----------------------------------------------------------------------------------

    def new_disk(self, voters: VoterSet | None = None) -> None:
        """An empty disk; formatted only when the quorum is created."""
        self.files = FakeFiles()
        self.key = ReplicaKey(self.node_id, self.cluster.directory_id(self.node_id, voters))
        if voters is not None:
            MetadataLog.format(self.files, METADATA_DIR, voters, self.cluster.world.wall_ms)

    @property
    def is_alive(self) -> bool:
        """Whether a process runs."""
        return self.raft is not None

    @property
    def living(self) -> Raft:
        """The core; a process must run."""
        assert self.raft is not None
        return self.raft

    def start(self) -> None:
        """Start a new process on the disk."""
        if self.is_alive:
            return
        world = self.cluster.world
        world.note(f"{self.node_id} starts")
        self.life += 1
        try:
            self.log = MetadataLog.open(self.files, METADATA_DIR, config=LOG_CONFIG, wall_ms=world.wall_ms)
            self.image = self.log.recovered
            self.raft = Raft(
                self.cluster.config,
                self.key,
                Endpoint(f"c{self.node_id}", 9000 + self.life),
                self.log,
                self.random,
                bootstrap_servers=len(self.cluster.bootstrap),
                now_ms=world.now_ms,
                wall_ms=world.wall_ms,
            )
        except Crash:
            self.die(power=False)
            return
        self.cluster.laws.on_start(self)
        self.step(TIMER_FIRED)

    def die(self, *, power: bool) -> None:
        """End the process in the middle of an operation; a power loss drops unsynced bytes."""
        self.cluster.world.note(f"{self.node_id} dies")
        if self._timer is not None:
            self._timer.cancel()
        self.raft = None
        self._writes.clear()
        self.has_bad_disk = False
        choices = ["none", "all", self.random.randrange(1 << 30), self.random.randrange(1 << 30)]
        mode = self.random.choice(choices)
        self.files = self.files.power_loss(mode) if power else self.files.restart()
        self.cluster.laws.on_death(self)
        if not power:
            self._reset_connections()
        delay_ms = int(self.random.expovariate(1 / 1500))
        self.cluster.world.after(delay_ms, f"{self.node_id} restarts", self.start)

    def _reset_connections(self) -> None:
        """Close the connections of an ended process, as its kernel does: requests to it fail unless the
        network is cut."""
        for other in self.cluster.controllers.values():
            if other.raft is None or other is self:
                continue
            for correlation_id, sent in other.raft.context.requests.in_flight():
                if sent.target == self.node_id:
                    failed, life = events.RequestFailed(correlation_id), other.life
                    self.cluster.network.send(
                        self.node_id,
                        other.node_id,
                        f"reset {correlation_id}",
                        lambda other=other, failed=failed, life=life: (
                            other.step(failed) if other.life == life else None
                        ),
                    )

    def spoil(self, operation: str, after: int) -> None:
        """Fail one of the next disk operations; the process must end, and may have written anything
        before."""
        self.has_bad_disk = True
        self.files.fail(operation, "", errno.EIO, after)

    def doom(self, operations: int, tear_bytes: int) -> None:
        """Kill the process in one of its next disk operations."""
        self.files.crash_at = len(self.files.operations) + operations
        self.files.tear_bytes = tear_bytes

    # --- events in, effects out ---------------------------------------------------------------------------

    def step(self, event: events.Event) -> None:
        """Step the core and perform the effects."""
        if self.raft is None:
            return
        self.cluster.touched.append(self)
        try:
            effects = self.raft.step(event, self.cluster.world.now_ms)
            for effect in effects:
                if not self.is_alive:
                    return
                self.performer.perform(effect)
        except Crash:
            self.die(power=self.random.random() < 0.6)
        except KafkaStorageError:
            assert self.has_bad_disk
            self.die(power=False)  # like the server: no further response may be sent

    def later(self, label: str, delay_ms: int, event: events.Event) -> Any:
        """Schedule an event for this process only."""
        life = self.life

        def happen() -> None:
            if self.life == life and self.is_alive:
                self.awake(label, lambda: self.step(event))

        return self.cluster.world.after(delay_ms, f"{self.node_id} {label}", happen)

    def awake(self, label: str, action: Any) -> None:
        """Run `action` now, or when the pause of the process ends."""
        life = self.life
        if not self.pause.is_on:
            action()
            return
        self.pause.defer(
            f"{self.node_id} at last {label}",
            lambda: self.awake(label, action) if self.life == life and self.is_alive else None,
        )

    def _new_performer(self) -> EffectPerformer:
        return EffectPerformer(
            events.Effect,
            on(events.Send, lambda effect: self._send(effect.target, effect.correlation_id, effect.body)),
            on(events.Reply, lambda effect: self._reply(effect.token, effect.body, effect.frames)),
            on(events.Flush, lambda _: self._flush()),
            on(events.Committed, lambda effect: self._apply(effect.end_offset)),
            on(events.LoadSnapshot, self._load_snapshot),
            on(events.BecameLeader, self._lead),
            on(events.Resigned, self._resign),
            on(events.LeaderChanged, ignore),
            on(events.Campaigning, ignore),
            on(events.SetTimer, self._set_timer),
        )

    def _load_snapshot(self, effect: events.LoadSnapshot) -> None:
        self.image = self.log.snapshots.read(effect.snapshot)[0]
        self.cluster.laws.on_snapshot_loaded(self)

    def _lead(self, effect: events.BecameLeader) -> None:
        self.cluster.laws.on_active(self, effect.epoch)

    def _resign(self, _effect: events.Resigned) -> None:
        self._writes.clear()

    def _set_timer(self, effect: events.SetTimer) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_ms = max(0, effect.deadline_ms - self.cluster.world.now_ms)
        self._timer = self.later("timer", delay_ms, TIMER_FIRED)

    def _send(self, target: int, correlation_id: int, body: Any) -> None:
        target = target if target >= 0 else self.cluster.bootstrap[-target - 1]
        body = over_the_wire(body)
        life, other = self.life, self.cluster.controllers[target]

        def deliver() -> None:
            if other.is_alive:
                self.cluster.world.on_message(f"c{self.node_id}", f"c{target}", body, (), None)
                request = events.RequestReceived((self.node_id, life, correlation_id), body)
                other.awake("request", lambda: other.step(request))
            elif self.life == life and self.random.random() < 0.5:
                self.later("refused", 1, events.RequestFailed(correlation_id))

        self.cluster.network.send(self.node_id, target, f"{correlation_id} {body}", deliver)

    def _reply(self, token: Any, body: Any, lent_frames: Sequence[Buffer]) -> None:
        frames = tuple(bytes(frame) for frame in lent_frames)
        self.cluster.laws.on_reply(self, token, body)
        source, life, correlation_id = token
        if source == "admin":
            self.cluster.world.note(f"admin {body}")
            return
        body = over_the_wire(body)
        other = self.cluster.controllers[source]

        def deliver() -> None:
            if other.is_alive and other.life == life:
                self.cluster.world.on_message(f"c{self.node_id}", f"c{source}", body, frames, None)
                response = events.ResponseReceived(correlation_id, body, frames)
                other.awake("response", lambda: other.step(response) if other.life == life else None)

        label = f"re {correlation_id} {body} {len(frames)}"
        self.cluster.network.send(self.node_id, source, label, deliver)

    def _flush(self) -> None:
        flush, life = self.log.start_flush(), self.life

        def finish() -> None:
            if not self.is_alive or self.life != life:
                return
            try:
                if flush is not None:
                    flush.sync()
                self.log.finish_flush(flush)
            except Crash:
                self.die(power=self.random.random() < 0.6)
                return
            except KafkaStorageError:
                assert self.has_bad_disk
                self.die(power=True)  # the written bytes may never have reached the disk
                return
            self.step(FLUSHED)

        slow = self.random.random() < 0.02
        delay_ms = int(self.random.expovariate(1 / (150 if slow else 3)))
        self.cluster.world.after(delay_ms, f"{self.node_id} flushed", finish)

    def _apply(self, end_offset: int) -> None:
        self.cluster.laws.on_committed(self, end_offset)
        for base_offset, records in self.log.committed(self.image.offset + 1, end_offset):
            self.image, _ = replay(self.image, base_offset, records)
        self.cluster.laws.on_applied(self)
        for offset in [offset for offset in self._writes if offset < end_offset]:
            self.cluster.acknowledged[self._writes.pop(offset)] = offset
        snapshots = self.log.snapshots.ids
        if end_offset - (snapshots[0].end_offset if snapshots else 0) >= RECORDS_BETWEEN_SNAPSHOTS:
            self.log.write_snapshot(self.image, self.cluster.world.wall_ms)
            self.log.checkpoint()

    def write(self, value: str) -> None:
        """Append a decision, as the active leader."""
        records = [ConfigRecord(4, "", f"key{hash_of(value) % 20}", value)]
        self._writes[self.log.end_offset] = value
        self.step(events.AppendRequested((encode_batch(records, self.cluster.world.wall_ms),)))


def over_the_wire(body: Any) -> Any:
    """The message after an encoding and a decoding."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(body), type=type(body))


def hash_of(value: str) -> int:
    """The number in a value; `hash` would differ between processes."""
    return int(value.lstrip("v"))


class SimQuorum:
    """A quorum, its network, and the faults."""

    def __init__(self, seed: int | str, plan: Plan | None = None, *, keep_trace: bool = False) -> None:
        self.world = World(seed, keep_trace=keep_trace)
        self.random = self.world.stream("faults")
        self.plan = plan or Plan.draw(self.random)
        self.world.note(repr(self.plan))
        self.network = Network(self.world)
        self.config = ControllerConfig.of(
            {"metadata.log.dir": METADATA_DIR, "controller.quorum.auto.join.enable": self.plan.auto_join}
        )
        self.laws = Laws(self)
        self.acknowledged: dict[str, int] = {}  # value -> offset
        self.touched: list[SimController] = []
        self.has_faults = True
        self.writes = 0
        self._disks: dict[int, int] = {}
        self._lost: set[ReplicaKey] = set()
        first = range(1, self.plan.voters + 1)
        described = [
            voter(ReplicaKey(node, self._disk_id(node, 1)), Endpoint(f"c{node}", 9001)) for node in first
        ]
        everyone = range(1, self.plan.voters + self.plan.observers + 1)
        # All controllers: a list of only the first voters is useless after they have been removed.
        self.bootstrap = tuple(everyone)
        self.controllers = {
            node: SimController(self, node, voters=VoterSet(tuple(described)) if node in first else None)
            for node in everyone
        }
        self.world.on_event = self._check

    # --- a run --------------------------------------------------------------------------------------------

    def run(self) -> SimQuorum:
        """Run all three phases. Errors: AssertionError for a broken law."""
        with uncollected():
            self._run()
        return self

    def _run(self) -> None:
        for node, controller in self.controllers.items():
            self.world.after(self.random.randrange(50), f"{node} starts first", controller.start)
        self._write_on()
        self.world.run(3_000)
        self.network.weather = self.plan.weather
        self._fault_on()
        self.world.run(self.plan.fault_ms)
        self.heal()
        self.require_progress(30_000)
        self.laws.at_end()

    def heal(self) -> None:
        """End all faults; killed processes restart by themselves."""
        self.has_faults = False
        self.network.heal()
        self.network.weather = FAIR
        for controller in self.controllers.values():
            controller.files.crash_at = None
            controller.files.clear_faults()
            controller.pause.end()

    def has_leader(self) -> bool:
        """Whether a controller is active."""
        return bool(self.active())

    def require_progress(self, limit_ms: int, *, without: tuple[SimController, ...] = ()) -> None:
        """Assert that a new decision is committed on all controllers within the limit, except those in
        `without`, which do not restart."""
        needed = [c for c in self.controllers.values() if c not in without]
        goal: dict[str, int] = {}

        def is_done() -> bool:
            if "end" not in goal:
                if len(self.acknowledged) > before:
                    goal["end"] = self.laws.committed_end
                return False
            return all(c.is_alive and c.log.high_watermark >= goal["end"] for c in needed)

        before = len(self.acknowledged)
        assert self.world.run(limit_ms, until=is_done), f"no progress in {limit_ms} ms: {self.summary()}"

    def summary(self) -> str:
        """The state of every controller, for an assertion message."""
        return "; ".join(
            f"{node}: {c.raft.role.value} epoch {c.raft.context.epoch} leader {c.raft.context.leader_id} "
            f"end {c.log.end_offset} hw {c.log.high_watermark} "
            f"voters {[key.replica_id for key in c.raft.context.voters]}"
            if c.raft
            else f"{node}: dead"
            for node, c in self.controllers.items()
        )

    def active(self) -> list[SimController]:
        """The controllers whose core is active."""
        return [c for c in self.controllers.values() if c.raft is not None and c.raft.is_active]

    def directory_id(self, node: int, voters: VoterSet | None) -> bytes:
        """The directory id of a new disk."""
        assert voters is None or node not in self._disks
        self._disks[node] = self._disks.get(node, 0) + 1
        return self._disk_id(node, self._disks[node])

    @staticmethod
    def _disk_id(node: int, number: int) -> bytes:
        return bytes([node]) * 8 + number.to_bytes(8, "big")

    def _check(self) -> None:
        for controller in self.touched:
            self.laws.check(controller)
        self.touched.clear()

    def _write_on(self) -> None:
        active = self.active()
        if active:
            self.writes += 1
            writer = self.random.choice(active)
            if not writer.pause.is_on:
                writer.write(f"v{self.writes}")
        self.world.after(1 + self.random.randrange(2 * self.plan.write_gap_ms), "write", self._write_on)

    # --- faults -------------------------------------------------------------------------------------------

    def _fault_on(self) -> None:
        if self.has_faults and self.plan.faults:
            kind = self.random.choice(self.plan.faults)
            self.world.note(kind)
            getattr(self, f"_fault_{kind}")(self._victim())
            gap_ms = 1 + int(self.random.expovariate(1 / self.plan.fault_gap_ms))
            self.world.after(gap_ms, "fault", self._fault_on)

    def _victim(self) -> SimController:
        """A random controller, leaders more often than others."""
        active = self.active()
        if active and self.random.random() < 0.4:
            return self.random.choice(active)
        return self.random.choice(list(self.controllers.values()))

    def _fault_crash(self, victim: SimController) -> None:
        if victim.is_alive:
            victim.doom(self.random.randrange(12), self.random.choice((0, 30, 1 << 20)))

    def _fault_io(self, victim: SimController) -> None:
        if victim.is_alive:
            operation = self.random.choice(("pwrite", "fdatasync", "fsync_directory", "rename"))
            victim.spoil(operation, self.random.randrange(3))

    def _fault_power(self, victim: SimController) -> None:
        victims = list(self.controllers.values()) if self.random.random() < 0.3 else [victim]
        for each in victims:
            if each.is_alive:
                each.die(power=True)

    def _fault_cut(self, victim: SimController) -> None:
        other = self.random.choice(list(self.controllers))
        self.network.cut(victim.node_id, other)
        if self.random.random() < 0.3:
            self.network.heal()

    def _fault_isolate(self, victim: SimController) -> None:
        self.network.heal()
        self.network.separate([victim.node_id], [n for n in self.controllers if n != victim.node_id])
        self._heal_later()

    def _fault_split(self, _victim: SimController) -> None:
        nodes = list(self.controllers)
        self.random.shuffle(nodes)
        middle = self.random.randrange(len(nodes) + 1)
        self.network.heal()
        self.network.separate(nodes[:middle], nodes[middle:])
        self._heal_later()

    def _heal_later(self) -> None:
        self.world.after(self.random.randrange(1, 6_000), "heal", self.network.heal)

    def _fault_pause(self, victim: SimController) -> None:
        victim.pause.begin(self.random.randrange(1, 5_000))

    def _fault_clog(self, victim: SimController) -> None:
        other = self.random.choice(list(self.controllers))
        self.network.clog(victim.node_id, other, self.random.randrange(1, 4_000))

    def _fault_weather(self, _victim: SimController) -> None:
        self.network.weather = self.random.choice((FAIR, self.plan.weather, Weather(5, 50, 0.3, 0.3)))

    def _fault_stop(self, victim: SimController) -> None:
        victim.step(events.StopRequested())
        if victim.is_alive and self.random.random() < 0.5:
            victim.die(power=False)

    def _fault_disk(self, victim: SimController) -> None:
        """Lose the disk of one voter. Only one at a time, because two could lose committed records."""
        living = [c for c in self.controllers.values() if c.is_alive]
        sets = {keys_of(voters) for c in living for _, voters in c.log.voters.entries}
        is_lost = any(key in self._lost for voters in sorted(sets) for key in voters)
        is_uncertain = len(living) < len(self.controllers) or len(sets) != 1
        votes = any(victim.key in voters for voters in sorted(sets))
        if not victim.is_alive or (votes and (is_lost or is_uncertain or min(map(len, sets)) < 3)):
            return
        self._lost.add(victim.key)
        self.laws.marks["disk lost"] += 1
        self.world.note(f"{victim.node_id} loses its disk")
        victim.die(power=True)
        victim.new_disk()

    def _fault_voters(self, victim: SimController) -> None:
        """Add or remove a voter, a voter with a lost disk first."""
        active = self.active()
        if not active:
            return
        leader = self.random.choice(active)
        voters = leader.living.context.voters
        lost = [key for key in voters if key in self._lost]
        body: Any
        if lost:
            body = messages.RemoveRaftVoterRequest("", *lost[0])
        elif victim.key in voters:
            body = messages.RemoveRaftVoterRequest("", *victim.key)
        else:
            body = messages.AddRaftVoterRequest("", *victim.key, f"c{victim.node_id}", 9000 + victim.life)
        if len(voters) > 2 or not isinstance(body, messages.RemoveRaftVoterRequest):
            leader.step(events.RequestReceived(("admin", 0, 0), body))


def simulate(seed: int) -> SimQuorum:
    """Run one seed. Errors: AssertionError."""
    return SimQuorum(seed).run()


__all__ = ["Plan", "Role", "SimQuorum", "simulate"]
