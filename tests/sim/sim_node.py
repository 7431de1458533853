"""A storage node in simulation: the production core, its log manager on a fake disk, its membership.

This shell does what `node_io.py` and `controller_link_io.py` do: it performs effects and brings back their
results, each after a while. A life of a node begins with `start` and ends with `die` or a clean `stop`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fake_files import Crash, FakeFiles
from headrace.protocol.errors import (
    KafkaError,
    KafkaStorageError,
    NetworkError,
    NotControllerError,
)
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    FetchMetadataRequest,
)
from headrace.storage_node import membership as m
from headrace.storage_node.effects import (
    AdvisePages,
    CopyLog,
    DeleteLog,
    EndNode,
    FlushLog,
    LookUpOffsets,
    Note,
    ProposeIsr,
    ReadCold,
    SendFetch,
    TellController,
    WakeAt,
)
from headrace.storage_node.log.log_manager import LogManager
from headrace.storage_node.node import StorageNode
from sim_disk import rot
from sim_transport import Link, SimReplies, SimRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster import SimCluster
    from headrace.storage_node.config import NodeConfig
    from headrace.storage_node.log.log import Log
    from headrace.storage_node.replica.partition import Partition

DIRS = ("/d", "/e")
CHECKPOINT_MS = 3_000
TICK_MS = 1_000
FETCH_SILENCE_MS = 3_000


class SimNode:
    """One node id: its disk, and while it lives its core."""

    def __init__(self, cluster: SimCluster, node_id: int, config: NodeConfig) -> None:
        self.cluster, self.node_id, self.config = cluster, node_id, config
        self.world = cluster.world
        self.name = f"n{node_id}"
        self.random = cluster.world.stream(self.name)
        self.files = FakeFiles()
        self.life = 0
        self.core: StorageNode | None = None
        self.manager: LogManager
        self.membership: m.Membership
        self.replies = SimReplies()
        self.requests: list[SimRequest] = []  # not answered when last looked at
        self.paused_until_ms = 0
        self.wall_skew_ms = 0
        self.flush_ms = self.read_ms = 2  # mean; what a slow disk raises
        self.has_bad_disk = False
        self.may_restart = True
        self.is_closing = False
        self.busy = 0  # jobs of threads that use the logs
        self.is_lossy = False  # lost unsynced bytes, and the controllers have not been told yet
        self.notes: list[str] = []
        self._uuids = 0
        self._timers: dict[str, Any] = {}
        self._link: Link | None = None
        self._followed: dict[int, Link] = {}
        self._is_following = False

    # --- life and death -----------------------------------------------------------------------------------

    @property
    def is_alive(self) -> bool:
        """Whether a process runs."""
        return self.core is not None

    @property
    def broker_epoch(self) -> int:
        """Of this process, -1 while it is not registered."""
        return self.membership.broker_epoch if self.is_alive else -1

    @property
    def running(self) -> StorageNode:
        """The core of a living node."""
        assert self.core is not None
        return self.core

    def start(self) -> None:
        """A new process on the disk as it is."""
        if self.is_alive or not self.may_restart:
            return
        self.world.note(f"{self.name} starts")
        self.life += 1
        try:
            self._open()
        except Crash:
            self.die(power=self.random.random() < 0.5)
            return
        except KafkaStorageError:
            assert self.may_fail, f"{self.name} cannot read what it wrote"
            self.die(power=True)
            return
        self.cluster.rules.on_start(self)
        self._perform_membership(self.membership.start())
        self._every(CHECKPOINT_MS, "checkpoint", self._checkpoint)
        self._every(TICK_MS, "tick", self._tick)

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
        self.previous_broker_epoch = self.manager.clean_broker_epoch
        self.cluster_id = found.cluster_id or ""
        self.manager.load(self.wall_ms)
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
            config, self.manager, self.replies, now_ms=self.world.now_ms, room=lambda: 1 << 30
        )
        for purge in self.manager.purge_tasks():
            purge()

    def die(self, *, power: bool) -> None:
        """The process ends; with the power, what was not synced may go too. It comes back by itself."""
        self.world.note(f"{self.name} dies {'of power' if power else ''}")
        self._end()
        if power:
            mode = self.random.choice(("none", "all", self.random.randrange(1 << 30)))
            self.files = self.files.power_loss(mode)
        else:
            self.files = self.files.restart()
        # The bytes of a process that is killed stay in the page cache, but its node cannot know that.
        self.is_lossy = True
        self.has_bad_disk = False
        self._restart_soon()

    def wipe(self) -> None:
        """The disk is replaced by an empty one."""
        self.die(power=True)
        self.files = FakeFiles(capacity_bytes=self.files.capacity_bytes)

    def rot(self) -> None:
        """A bit flips in what recovery reads again."""
        if rot(self.files, self.random.choice(DIRS), self.random):
            self.cluster.rules.marks["rotten"] += 1

    def move(self) -> None:
        """One of its replicas goes to the other disk, or comes back."""
        replicas, dirs = self.running.replicas, self.manager.online_dirs
        partitions = [p for p in replicas.partitions.values() if p.is_online]
        if partitions and len(dirs) > 1 and not self.is_closing:
            partition = self.random.choice(partitions)
            replicas.moves.begin(partition, dirs[dirs[0] is self.manager.home_of(partition.topic_partition)])

    def repair(self) -> None:
        """An operator has looked at the disks: a node that lost one of them is started again."""
        if self.is_alive and self.manager.offline_dirs:
            self.stop()

    def stop(self) -> None:
        """Controlled shutdown: give leadership away, then end in order."""
        if self.is_alive:
            self._submit(m.StopAsked())

    def _shut_down(self) -> None:
        """Nothing depends on this node any more: serve nobody, let threads finish, close."""
        self.is_closing = True
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
        self.world.note(f"{self.name} stops")
        self.cluster.rules.marks["stopped"] += 1
        self._end()
        self.files = self.files.restart()
        self._restart_soon()

    def _end(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.cluster.rules.marks["moved"] += self.core.replicas.moves.finished if self.core else 0
        self.core = None
        self._link, self._is_following = None, False
        self._followed.clear()
        self.is_closing, self.busy = False, 0
        self.requests.clear()
        self.cluster.transport.died(self)
        self.cluster.rules.on_death(self)

    def _restart_soon(self) -> None:
        delay_ms = int(self.random.expovariate(1 / 1500))
        self.world.after(delay_ms, f"{self.name} restarts", self.start)

    def _on_offline(self, path: str, reason: str) -> None:
        """A log dir failed; the core is told soon."""
        error = KafkaStorageError(f"{path}: {reason}")
        if self.is_alive:
            self.later(0, "lost a dir", lambda: self.running.disk_failed(error))

    @property
    def may_fail(self) -> bool:
        """Whether its disk may refuse something."""
        return self.has_bad_disk or self.files.capacity_bytes is not None

    def _uuid(self) -> bytes:
        self._uuids += 1
        return self.node_id.to_bytes(4, "big") + self._uuids.to_bytes(12, "big")

    @property
    def wall_ms(self) -> int:
        """The calendar as this node has it."""
        return self.world.wall_ms + self.wall_skew_ms

    # --- calls --------------------------------------------------------------------------------------------

    def awake(self, label: str, action: Callable[[], None]) -> None:
        """Do it now, or when the process is continued; never in another life."""
        now_ms, life = self.world.now_ms, self.life
        if now_ms >= self.paused_until_ms:
            self._guarded(action)
            return
        self.world.after(
            self.paused_until_ms - now_ms,
            f"{self.name} at last {label}",
            lambda: self.awake(label, action) if self.life == life and self.is_alive else None,
        )

    def later(self, delay_ms: int, label: str, action: Callable[[], None]) -> Any:
        """A call in this life."""
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
        """As the router gives it to the core; one that is closing gives it none."""
        if self.is_closing:
            return
        self.requests = [each for each in self.requests if not each.is_answered]
        self.requests.append(request)
        self.running.handle(request, self.world.now_ms, self.wall_ms)

    def gone(self, session: int) -> None:
        """A connection has ended."""
        self.running.connection_gone(session)

    # --- effects of the core ------------------------------------------------------------------------------

    def _perform(self) -> None:
        while self.core is not None and (effects := self.core.take_effects()):
            for effect in effects:
                if self.core is None:
                    return
                self._perform_one(effect)

    def _perform_one(self, effect: Any) -> None:
        core = self.running
        match effect:
            case FlushLog(partition):
                self._flush(partition)
            case DeleteLog(of_partition):
                self.later(self._delay(self.flush_ms), "delete", of_partition.delete)
            case LookUpOffsets() | ReadCold() | AdvisePages() | CopyLog():
                self._start_work(effect)
            case TellController():
                self._submit(m.NewsCame())
            case WakeAt(deadline_ms):
                self._set_timer("core", deadline_ms, lambda: core.expire(self.world.now_ms))
            case Note(_, text):
                self.notes.append(text)
            case SendFetch():
                self._send_fetch(effect)
            case ProposeIsr(request):
                self._propose(request)
            case EndNode(_):
                self.die(power=True)
            case _:
                raise AssertionError(f"nobody performs {effect}")

    def _start_work(self, effect: Any) -> None:
        core = self.running
        match effect:
            case LookUpOffsets(lookup):
                self._off_loop(self.read_ms, "look up", lookup.run, lambda: core.looked_up(lookup))
            case ReadCold(read):
                self.cluster.rules.marks["cold read"] += 1
                done = lambda: core.cold_read(read, self.world.now_ms)  # noqa: E731
                self._off_loop(self.read_ms, "read", read.run, done)
            case AdvisePages(advice):
                advice.run()
            case CopyLog(key, move):
                self._off_loop(self.read_ms, "copy", move.run, lambda: core.copied(key, move))

    def _delay(self, mean_ms: int) -> int:
        return int(self.random.expovariate(1 / mean_ms))

    def _off_loop(self, mean_ms: int, label: str, run: Callable[[], None], done: Callable[[], None]) -> None:
        """On a thread: it sees the disk as it is some time later."""

        self.busy += 1

        def happen() -> None:
            self.busy -= 1
            run()
            done()

        self.later(self._delay(mean_ms), label, happen)

    def _flush(self, partition: Partition) -> None:
        core, log = self.running, partition.log
        assert log is not None
        flush = log.start_flush()
        if flush is None:
            core.flushed(partition, log.recovery_point)
            return

        self.busy += 1

        def finish() -> None:
            self.busy -= 1
            try:
                flush.sync()
            except KafkaStorageError as error:
                core.flush_failed(partition, error)
                return
            log.finish_flush(flush)
            core.flushed(partition, log.recovery_point)

        self.later(self._delay(self.flush_ms), "flush", finish)

    def _send_fetch(self, effect: SendFetch) -> None:
        leader = effect.where[0]
        link = self._followed.get(leader)
        if link is None or not link.is_usable:
            link = self._followed[leader] = self.cluster.transport.open(self, f"n{leader}")

        def done(response: Any, frames: Any) -> None:
            core, now_ms = self.running, self.world.now_ms
            if isinstance(response, NetworkError):
                link.close()
            if isinstance(response, KafkaError):
                core.replica_fetch_failed(effect.where, effect.number, now_ms)
            else:
                core.replica_fetched(effect.where, effect.number, response, frames, now_ms, self.wall_ms)

        if self.running.endpoint_of(leader) is None:
            self.later(1, "cannot follow", lambda: done(NetworkError("not registered"), ()))
        else:
            link.ask(registry.FETCH, effect.request, (), FETCH_SILENCE_MS, done)

    def _propose(self, request: Any) -> None:
        core = self.running

        def done(response: Any) -> None:
            core.isr_answered(response, self.world.now_ms)

        def failed() -> None:
            core.isr_failed(self.world.now_ms)

        timeout_ms = self.config.controller_request_timeout_ms
        if not self._ask(registry.ALTER_PARTITION, request, timeout_ms, done, failed):
            self.later(1, "cannot propose", failed)

    def _set_timer(self, key: str, deadline_ms: int, action: Callable[[], None]) -> None:
        old = self._timers.pop(key, None)
        if old is not None:
            old.cancel()
        self._timers[key] = self.later(max(deadline_ms - self.world.now_ms, 0), key, action)

    def _checkpoint(self) -> None:
        if not self.is_closing:
            core = self.running
            core.checkpoints_begin()
            tasks = self.manager.checkpoint_tasks()

            self.busy += 1

            def write() -> None:
                self.busy -= 1
                for task in tasks:
                    task.run()
                core.checkpoints_end()
                core.flush_all()

            self.later(self._delay(self.flush_ms), "write checkpoints", write)

    def _tick(self) -> None:
        self.running.tick(self.world.now_ms)

    # --- the controller -----------------------------------------------------------------------------------

    def _submit(self, event: m.Event) -> None:
        self._perform_membership(self.membership.step(event, self.world.now_ms))
        self.membership.check()

    def _perform_membership(self, effects: tuple[m.Effect, ...]) -> None:
        for effect in effects:
            if not self.is_alive:
                return
            match effect:
                case m.FindController():
                    self.later(self._delay(5), "find the controller", self._find)
                case m.SendRegistration():
                    self._register()
                case m.AdoptIdentity(node_id, cluster_id):
                    self._adopt(node_id, cluster_id)
                case m.SendHeartbeat(broker_epoch, want_shutdown):
                    self._beat(broker_epoch, want_shutdown=want_shutdown)
                case m.FollowMetadata():
                    if not self._is_following:
                        self._is_following = True
                        self._follow()
                case m.SetTimer(key, deadline_ms):
                    self._set_timer(key, deadline_ms, lambda k=key: self._submit(m.TimeCame(k)))  # type: ignore[misc]
                case m.Left():
                    self.later(0, "shut down", self._shut_down)
                case m.Failed(error):
                    raise AssertionError(f"{self.name} is no part of the cluster any more: {error}")

    def _find(self) -> None:
        target = self.cluster.guess_controller(self.random)
        self._link = self.cluster.transport.open(self, target)
        self._is_following = False
        self._submit(m.Connected())

    def _lost(self, link: Link) -> None:
        if self._link is link:
            self._link, self._is_following = None, False
            link.close()
            self._submit(m.Disconnected())

    def _ask(
        self,
        api: Any,
        body: Any,
        timeout_ms: int,
        done: Callable[[Any], None],
        failed: Callable[[], None] = lambda: None,
    ) -> bool:
        """Ask the controller; False if there is no connection. What fails gives the connection up."""
        link = self._link
        if link is None:
            return False
        if not link.is_usable:
            self._lost(link)
            return False

        def answered(response: Any, _frames: Any) -> None:
            is_refused = isinstance(response, KafkaError)
            if is_refused or response.error_code == NotControllerError.code:
                self._lost(link)
                failed()
            else:
                done(response)

        link.ask(api, body, (), timeout_ms, answered)
        return True

    def _register(self) -> None:
        body = BrokerRegistrationRequest(
            self.node_id,
            self.cluster_id,
            self.incarnation,
            self.name,
            9_000,
            None,
            self.manager.directory_ids,
            epoch if (epoch := self.membership.broker_epoch) >= 0 else self.previous_broker_epoch,
        )

        def done(response: Any) -> None:
            if not response.error_code:
                self.is_lossy = False
            self._submit(m.RegistrationAnswered(response))

        self._ask(registry.BROKER_REGISTRATION, body, self.config.controller_request_timeout_ms, done)

    def _beat(self, broker_epoch: int, *, want_shutdown: bool) -> None:
        news = self.running.replicas.disks.news()
        body = BrokerHeartbeatRequest(
            self.node_id,
            broker_epoch,
            self.running.image.offset,
            want_shutdown=want_shutdown,
            offline_log_dirs=news.offline_dirs,
            offline_replicas=news.offline,
            full_replicas=news.full,
        )
        self._ask(
            registry.BROKER_HEARTBEAT,
            body,
            self.config.controller_request_timeout_ms,
            lambda response: self._submit(m.HeartbeatAnswered(response)),
        )

    def _adopt(self, node_id: int, cluster_id: str) -> None:
        self.manager.set_identity(cluster_id, node_id)
        self.cluster_id = cluster_id
        self.running.joined(node_id, 1)

    def _follow(self) -> None:
        wait_ms = self.config.metadata_max_wait_ms
        link = self._link

        def done(response: Any) -> None:
            if response.error_code:
                if link is not None:
                    self._lost(link)
                return
            core, broker_epoch = self.running, self.membership.broker_epoch
            step = core.read_metadata(response)
            if step is not None:
                tasks = core.logs_ahead(step, broker_epoch)
                for task in tasks:
                    task.run()
                core.follow(step, broker_epoch, tasks, now_ms=self.world.now_ms)
            self._submit(m.MetadataApplied(core.image.offset))
            if self._link is link and self._is_following:
                self._follow()

        body = FetchMetadataRequest(self.node_id, self.running.image.offset, wait_ms)
        self._ask(registry.FETCH_METADATA, body, wait_ms + self.config.controller_request_timeout_ms, done)

    def log_of(self, key: tuple[str, int]) -> Log | None:
        """The log of a partition that works here."""
        if self.core is None:
            return None
        for partition in self.core.replicas.partitions.values():
            log = partition.log
            if log is not None and partition.topic_partition == key and partition.is_online:
                return None if log.is_offline else log
        return None
