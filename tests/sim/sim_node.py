"""A storage node in simulation: the production core, its log manager on a fake disk, its membership.

Like `node_io.py` and `controller_link_io.py`, it performs effects and passes their results to the core, each
after a delay. A process of a node begins with `start` and ends with `die` or a clean `stop`; `life` counts
the processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fake_files import Crash, FakeFiles
from headrace.coordinators.assembly import new_coordinators
from headrace.protocol.errors import KafkaError, KafkaStorageError
from headrace.storage_node.edge.gate import admitted
from headrace.storage_node.links import membership as m
from headrace.storage_node.log.log_manager import LogManager
from headrace.storage_node.node import StorageNode
from sim_cleaner import CLEAN_MS, SimCleaner
from sim_disk import Taken, harm, rot
from sim_node_control import NodeControl
from sim_node_effects import NodeEffects
from sim_transport import Link, SimReplies, SimRequest
from world import Pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from access import Access
    from cluster import SimCluster
    from headrace.storage_node.configs.node_config import NodeConfig
    from headrace.storage_node.embedded.contract import CoordinatorFactory
    from headrace.storage_node.log.log import Log
    from headrace.storage_node.replica.partition import Partition, PartitionKey

DIRS = ("/d", "/e")
CHECKPOINT_MS = 3_000
TICK_MS = 1_000
USUAL_DISK_MS = 2


class SimNode(NodeEffects, NodeControl):
    """One node id: its disk, and its core while a process runs."""

    def __init__(self, cluster: SimCluster, node_id: int, config: NodeConfig) -> None:
        self.cluster, self.node_id, self.config = cluster, node_id, config
        # of the next process
        self.coordinators: CoordinatorFactory | None = new_coordinators if cluster.plan.groups else None
        self.world = cluster.world
        self.name = f"n{node_id}"
        self.random = cluster.world.stream(self.name)
        self.files = FakeFiles()
        self.life = 0
        self.swaps = 0  # number of segment swaps by the cleaner, in all processes
        self.core: StorageNode | None = None
        self.manager: LogManager
        self.membership: m.Membership
        self.replies = SimReplies()
        self.requests: list[SimRequest] = []  # unanswered at the last request
        self.pause = Pause(cluster.world)
        self.ticked_ms = 0  # time of the core's last tick
        self.deaf_ms = 0  # time after a pause in which requests are read before responses
        self.wall_skew_ms = 0
        self.flush_ms = self.read_ms = USUAL_DISK_MS  # mean; a slow disk has more
        self.has_bad_disk = False
        self.may_restart = True
        self.is_closing = False
        self.taken = Taken()  # folder that was removed while no process ran
        self.busy = 0  # number of running thread jobs that use the logs
        self.is_lossy = False  # unsynced bytes were lost, and no registration has reported it yet
        self.notes: list[str] = []
        self._uuids = 0
        self._timers: dict[str, Any] = {}
        self._link: Link | None = None
        self._followed: dict[int, Link] = {}
        self._is_following = False
        self._is_checkpointing = False

    # --- starts and ends ----------------------------------------------------------------------------------

    @property
    def is_alive(self) -> bool:
        """Whether a process runs."""
        return self.core is not None

    @property
    def is_active(self) -> bool:
        """Whether a process runs that is registered, not fenced and not stopping."""
        return self.core is not None and self.membership.state is m.MembershipState.ACTIVE

    @property
    def is_sound(self) -> bool:
        """Whether a process runs, is not paused, and its disks are neither broken, full nor slow."""
        files = self.files
        return (
            self.core is not None
            and not self.is_closing
            and not self.pause.is_on
            and files.is_sound
            and max(self.flush_ms, self.read_ms) == USUAL_DISK_MS
            and not self.manager.dirs.offline
        )

    @property
    def broker_epoch(self) -> int:
        """The broker epoch of this process, -1 while it is not registered."""
        return self.membership.broker_epoch if self.is_alive else -1

    @property
    def running(self) -> StorageNode:
        """The core; a process must run."""
        assert self.core is not None
        return self.core

    def start(self) -> None:
        """Start a process on the current disk."""
        if self.is_alive or not self.may_restart:
            return
        self.world.note(f"{self.name} starts")
        self.life += 1
        self.taken.maybe_put_back(self.files)
        try:
            self._open()
        except Crash:
            self.die(power=self.random.random() < 0.5)
            return
        except KafkaStorageError:
            assert self.may_fail, f"{self.name} cannot open its logs"
            self.die(power=True)
            return
        self.cluster.rules.on_start(self)
        self.ticked_ms = self.world.now_ms
        self._perform_membership(self.membership.start())
        self._every(CHECKPOINT_MS, "checkpoint", self._checkpoint)
        self._every(TICK_MS, "tick", self._tick)
        if self.cluster.plan.compacts:
            self._every(CLEAN_MS, "clean", SimCleaner(self).begin)

    def _open(self) -> None:
        config = self.config
        for path in config.log_dirs:
            self.files.mkdir(path)
        self.files.fsync_directory("/")
        self.manager = LogManager(
            self.files,
            config.log_dirs,
            defaults=config.log_defaults(),
            new_uuid=self._uuid,
            on_offline=self._on_offline,
            reserve_bytes=config.log_dir_reserve_bytes,
        )
        found = self.manager.open_dirs()
        self.cluster_id = found.cluster_id or ""
        self.manager.load(self.wall_ms)
        end = self.previous_end = self.manager.loader.previous_end
        assert not end.lost or self.is_lossy or self.taken.folder, f"FalseLoss: {self.name} {end.lost}"
        times = m.MembershipTimes(
            heartbeat_ms=config.heartbeat_interval_ms,
            backoff_ms=config.controller_backoff_ms,
            backoff_max_ms=config.controller_backoff_max_ms,
            registration_timeout_ms=1 << 40,
            shutdown_timeout_ms=config.controlled_shutdown_timeout_ms,
        )
        self.membership = m.Membership(times)
        self.incarnation = self._uuid()
        self.core = StorageNode(
            config,
            self.manager,
            self.replies,
            now_ms=self.world.now_ms,
            room=lambda: 1 << 30,
            coordinators=self.coordinators,
        )
        self.core.coordinators.lease = self.membership.lease
        self.core.authorization.known = self.membership.known
        self.performer = self._new_performer()
        self.membership_performer = self._new_membership_performer()
        self.core.coordinators.note_time(self.world.now_ms, self.wall_ms)
        for purge in self.manager.loader.purge_tasks():
            purge()

    def die(self, *, power: bool) -> None:
        """End the process; a power loss may drop unsynced bytes. The next process starts after a delay."""
        self.world.note(f"{self.name} dies {'of power' if power else ''}")
        self._end()
        if power:
            mode = self.random.choice(("none", "all", self.random.randrange(1 << 30)))
            self.files = self.files.power_loss(mode)
        else:
            self.files = self.files.restart()
        # Written bytes of a killed process stay in the page cache, but the next process cannot rely on it.
        self.is_lossy = True
        self.has_bad_disk = False
        self._restart_soon()

    def wipe(self) -> None:
        """Replace the disk by an empty one."""
        self.die(power=True)
        self.cluster.rules.on_loss(self)
        self.files, self.taken = FakeFiles(capacity_bytes=self.files.capacity_bytes), Taken()

    def rot(self) -> None:
        """Flip a bit above the recovery point, in bytes that log recovery reads."""
        if rot(self.files, self.random.choice(DIRS), self.random):
            self.cluster.rules.marks["rotten"] += 1

    def harm(self) -> None:
        """Truncate or remove a log after a clean shutdown."""
        kind = harm(self.files, self.random.choice(DIRS), self.random, self.taken)
        if kind:
            self.world.note(f"{self.name} is harmed: {kind}")
            self.cluster.rules.on_loss(self)
            self.cluster.rules.marks["harmed"] += 1
            self.is_lossy = True

    def move(self) -> None:
        """Move one of its replicas to the other log dir."""
        replicas, dirs = self.running.replicas, self.manager.dirs.online
        partitions = [p for p in self.running.table.partitions.values() if p.is_online]
        if partitions and len(dirs) > 1 and not self.is_closing:
            partition = self.random.choice(partitions)
            replicas.moves.begin(
                partition, dirs[dirs[0] is self.manager.dir_of(partition.topic_partition)], self.world.now_ms
            )

    def repair(self) -> None:
        """Restart a node that has an offline log dir, as an operator would."""
        if self.is_alive and self.manager.dirs.offline:
            self.stop()

    def stop(self) -> None:
        """Controlled shutdown: move leadership away, then close the logs."""
        if self.is_alive:
            self._submit(m.ShutdownRequested())

    def _shut_down(self) -> None:
        """After the last leader has moved: reject requests, wait for threads, close the logs."""
        self.is_closing = True
        self.running.cleaner.stop()
        if self.busy:
            self.later(1, "shut down", self._shut_down)
            return
        try:
            self.manager.shutdown(self.membership.broker_epoch)
        except Crash:
            self.die(power=self.random.random() < 0.5)
            return
        except KafkaStorageError:
            assert self.may_fail
            self.die(power=True)
            return
        if self.manager.dirs.offline:
            self.is_lossy = (
                True  # an offline dir has no clean mark: the next registration reports an unclean shutdown
            )
        self.world.note(f"{self.name} stops")
        self.cluster.rules.marks["stopped"] += 1
        self._end()
        self.files = self.files.restart()
        self.cluster.faults.on_stopped(self)
        self._restart_soon()

    def _end(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.cluster.rules.marks["moved"] += self.core.replicas.moves.finished if self.core else 0
        self.core = None
        self._link, self._is_following, self._is_checkpointing = None, False, False
        self._followed.clear()
        self.is_closing, self.busy = False, 0
        self.requests.clear()
        self.cluster.transport.died(self)
        self.cluster.rules.on_death(self)

    def _tick(self) -> None:
        self.ticked_ms = self.world.now_ms
        self.running.tick(self.world.now_ms, self.wall_ms)

    def _restart_soon(self) -> None:
        delay_ms = int(self.random.expovariate(1 / 1500))
        self.world.after(delay_ms, f"{self.name} restarts", self.start)

    def _on_offline(self, path: str, reason: str) -> None:
        """Report a failed log dir to the core after a delay."""
        error = KafkaStorageError(f"{path}: {reason}")
        if self.is_alive:
            self.later(0, "lost a dir", lambda: self.running.disk_failed(error, self.world.now_ms))

    @property
    def may_fail(self) -> bool:
        """Whether disk operations may fail."""
        return self.has_bad_disk or self.files.capacity_bytes is not None

    def _uuid(self) -> bytes:
        self._uuids += 1
        return self.node_id.to_bytes(4, "big") + self._uuids.to_bytes(12, "big")

    @property
    def wall_ms(self) -> int:
        """The wall clock of this node."""
        return self.world.wall_ms + self.wall_skew_ms

    # --- calls --------------------------------------------------------------------------------------------

    def awake(self, label: str, action: Callable[[], None]) -> None:
        """Run `action` now, or when the pause ends; not if the process has ended."""
        life, deaf_ms = self.life, self.deaf_ms if label == "answer" else 0
        if self.world.now_ms >= self.pause.until_ms + deaf_ms:
            self._guarded(action)
            return
        self.pause.defer(
            f"{self.name} at last {label}",
            lambda: self.awake(label, action) if self.life == life and self.is_alive else None,
            deaf_ms,
        )

    def later(self, delay_ms: int, label: str, action: Callable[[], None]) -> Any:
        """Schedule a call after a delay; it is dropped if the process has ended by then."""
        life = self.life
        return self.world.after(
            delay_ms,
            f"{self.name} {label}",
            lambda: self.awake(label, action) if self.life == life and self.is_alive else None,
        )

    def _guarded(self, action: Callable[[], None]) -> None:
        if not self.is_alive:
            return
        self.cluster.touched_nodes[self.name] = self
        try:
            action()
            self._perform()
        except Crash:
            self.die(power=self.random.random() < 0.5)
        except KafkaStorageError:
            assert self.may_fail
            self.die(power=True)

    def _every(self, interval_ms: int, label: str, action: Callable[[], None]) -> None:
        def happen() -> None:
            action()
            self.later(interval_ms, label, happen)

        self.later(interval_ms, label, happen)

    # --- requests -----------------------------------------------------------------------------------------

    def receive(self, request: SimRequest) -> None:
        """Pass a request to the core, as the router does; a closing node drops it."""
        if self.is_closing:
            return
        self.requests = [each for each in self.requests if not each.is_answered]
        self.requests.append(request)
        if self.cluster.access is None or self._is_admitted(self.cluster.access, request):
            self.running.handle(request, self.world.now_ms, self.wall_ms)

    def _is_admitted(self, access: Access, request: SimRequest) -> bool:
        """As gateway_io.py does. Users ask for one partition: all of it may run, or nothing."""
        core, is_users = self.running, not request.peer.identity.is_server
        core.authorization.note_time(self.world.now_ms)
        try:
            is_allowed = admitted(core.gate, request, self.replies) is request  # type: ignore[arg-type]
        except KafkaError as error:
            access.on_undecided()
            self.replies.reply_error(request, error)
            return False
        if is_users and access.topic_of(request) in core.image.topic_names:  # a handler reports others
            access.on_decided(self, request, is_allowed=is_allowed)
        return is_allowed

    def gone(self, session: int) -> None:
        """Report the end of a client's connection."""
        self.running.connection_gone(session, self.world.now_ms)

    def partition_of(self, key: PartitionKey) -> Partition | None:
        """The partition in this process, None if it has none."""
        return None if self.core is None else self.core.table.partitions.get(key)

    def log_of(self, key: tuple[str, int]) -> Log | None:
        """The log of an online partition, None if there is none."""
        if self.core is None:
            return None
        for partition in self.core.table.partitions.values():
            if partition.topic_partition == key and partition.log is not None and partition.is_online:
                return None if partition.log.is_offline else partition.log
        return None
