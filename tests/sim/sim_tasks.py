"""Stream tasks in simulation: the production task manager, tasks, stores and member of each thread, the
production group shard, and `task_log` in place of the cluster. A process has one thread.

Threads take turns as `StreamThread` does. Processes are killed and paused, lose their disk, are closed and
started again, as dynamic or static members; heartbeats are late or lost, the coordinator moves, transactions
time out. The application counts words under exactly_once_v2, with standbys and warm-up tasks. The laws:

- ExactlyOnce: the committed counts of each word are 1, 2, 3, ...: at every commit, and at the end all.
- OffsetsKept: a committed offset never goes back.
- OneActive: in the coordinator's state, and of the threads that may commit: a task runs in one of them.
- StoresComplete: at the end the stores of active tasks and of standbys have the counts of all words.
- Alive: no thread ends with an error, and after the faults every word is counted and all standbys run.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.clients.cluster.backoff import Backoff
from headrace.clients.group.member import ChangeKind, ForgetCoordinator, MemberConfig, SendRequest
from headrace.clients.group.streams import StreamsMember
from headrace.clients.serdes import int64, utf8
from headrace.coordinators.runtime.ports import ProducerIdAndEpoch
from headrace.coordinators.streams.streams_group import StreamsGroup
from headrace.protocol.errors import CommitFailedError, KafkaError, NetworkError, NotCoordinatorError
from headrace.protocol.messages.registry import STREAMS_GROUP_HEARTBEAT
from headrace.protocol.model import TopicPartition
from headrace.stream.errors import TaskCorruptedError, TaskMigratedError, TaskRetryError
from headrace.stream.records import TaskId
from headrace.stream.state.engines import StoreFullError
from headrace.stream.worker.thread_membership import ThreadMembership
from task_log import TIMEOUT_MS, TaskLog
from worker_rig import COUNTS, SOURCE, Files, WorkerRig
from world import World

from tests.fakes.streams_group_rig import StreamsGroupRig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

logging.getLogger("headrace").addHandler(logging.NullHandler())  # the trace has the important events

APP, CHANGELOG, PARTITIONS = "app", "app-store-changelog", 2
WORDS = "abcdef"
SESSION_MS, STANDBYS = 1_500, 1
KINDS = ("kill", "kill", "wipe", "pause", "pause", "bounce", "move", "fence", "refuse")
FAULT_MS, PATIENCE_MS = 15_000, 30_000
GROUP = {
    "group_streams_session_timeout_ms": SESSION_MS,
    "group_streams_heartbeat_interval_ms": 300,
    "group_streams_initial_rebalance_delay_ms": 200,
    "group_streams_assignment_interval_ms": 100,
    "group_streams_num_standby_replicas": STANDBYS,
    "group_streams_num_warmup_replicas": 1,
    "group_streams_acceptable_recovery_lag": 5,
    "group_streams_task_offset_interval_ms": 1_000,
    "transaction_partition_verification_enable": False,  # `TaskLog` knows the transactions
}


class Plan(NamedTuple):
    """Random parameters: processes, the probability of a lost heartbeat, the time between two faults."""

    processes: int
    is_static: bool
    loss: float
    fault_gap_ms: int
    cache_bytes: int


class SimTasks:
    """One run."""

    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        self.world = World(f"tasks/{seed}", keep_trace=keep_trace)
        self.random = rng = self.world.stream("tasks")
        self.plan = Plan(
            rng.choice((2, 3)), rng.random() < 0.4, rng.choice((0.0, 0.05, 0.2)),
            rng.choice((300, 1_000, 2_500)), rng.choice((0, 1 << 20)),
        )  # fmt: skip
        self.world.note(repr(self.plan))
        self.sent: Counter[str] = Counter()
        self.counted: Counter[str] = Counter()
        self.is_faulty = self.is_sending = True

    def run(self) -> SimTasks:
        """Run with faults, heal them, and check the final laws. Errors: AssertionError for a broken law."""
        with ExitStack() as stack:
            self.folder = Path(tempfile.mkdtemp(prefix="sim-tasks-"))
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self._begin()
            stack.callback(lambda: [each.close_files() for each in self.processes])
            self.world.run(FAULT_MS)
            self._end()
        return self

    def _begin(self) -> None:
        self.group = StreamsGroupRig(**GROUP)
        self.group.set_topics(**{SOURCE: PARTITIONS, COUNTS: 1, CHANGELOG: PARTITIONS})
        self.log = TaskLog(
            lambda: self.world.now_ms, **{SOURCE: PARTITIONS, COUNTS: 1, CHANGELOG: PARTITIONS}
        )
        self.log.ask_group = self.ask_group
        self.log.on_commit = self._check_commit
        self.log.end_offsets_of = self._end_offsets
        self.log.later = lambda action: self.every(self.random.randrange(1, 400), "markers", action)
        self.processes = [SimProcess(self, number) for number in range(self.plan.processes)]
        for process in self.processes:
            self.every(self.random.randrange(1, 300), process.name, process.start)
        self._repeat(60, "words are sent", self._send)
        self._repeat(100, "the coordinator ticks", self._tick)
        self._repeat(self.plan.fault_gap_ms, "a fault", self._fault)

    def every(self, delay_ms: int, label: str, action: Callable[[], None]) -> None:
        """Schedule one event after a delay."""
        self.world.after(delay_ms, label, action)

    def _repeat(self, gap_ms: int, label: str, action: Callable[[], None]) -> None:
        def happen() -> None:
            action()
            self.every(self.random.randrange(1, 2 * gap_ms), label, happen)

        self.every(self.random.randrange(1, 2 * gap_ms), label, happen)

    # --- cluster and coordinator ----------------------------------------------------------------------------

    def _send(self) -> None:
        if self.is_sending:
            for word in self.random.choices(WORDS, k=self.random.randrange(1, 4)):
                number = WORDS.index(word) % PARTITIONS
                self.log.append(SOURCE, word.encode(), b"", partition=number, timestamp=self.world.wall_ms)
                self.sent[word] += 1

    def _tick(self) -> None:
        self.group.advance(max(0, 1_000_000 + self.world.now_ms - self.group.now_ms))
        self.log.expire()

    def ask_group(self, api: Any, body: Any) -> Any:
        """The response of the coordinator, without a delay."""
        self._tick()
        return self.group.request(api, body).answer

    def _end_offsets(self, producer_id: int, epoch: int, is_commit: bool) -> None:
        self.group.end_transaction(ProducerIdAndEpoch(producer_id, epoch), is_commit=is_commit)

    def _fault(self) -> None:
        if not self.is_faulty:
            return
        process = self.random.choice(self.processes)
        kind = self.random.choice(KINDS)
        self.world.note(f"{kind} {process.name}")
        if kind == "move":
            self.group.reload()
        elif kind == "fence":
            self.log.initialize(process.transactional_id)
        elif kind == "refuse":
            self.log.failures[process.transactional_id].append(NotCoordinatorError("it moves"))
        elif kind == "pause":
            process.paused_until_ms = self.world.now_ms + self.random.randrange(100, 2 * TIMEOUT_MS)
        elif process.is_running and not process.is_paused:
            process.stop(is_clean=kind == "bounce", is_wiped=kind == "wipe")
            self.every(self.random.randrange(10, 2 * SESSION_MS), process.name, process.start)

    # --- laws -----------------------------------------------------------------------------------------------

    def _check_commit(self, records: list[Any], before: Any, offsets: Any) -> None:
        """ExactlyOnce, OffsetsKept."""
        for record in records:
            if record.topic == COUNTS:
                word, count = utf8.loads(record.key), int64.loads(record.value)
                last = self.counted[word]
                is_next = count > last if self.plan.cache_bytes else count == last + 1
                assert is_next, f"ExactlyOnce: {word}: {count} follows {last}"
                self.counted[word] = count
        for tp, found in offsets.items():
            old = before[tp]
            assert old is None or found.offset >= old.offset, f"OffsetsKept: {tp}: {old} before {found}"

    def check(self) -> None:
        """OneActive, after every turn of a thread."""
        group: Any = self.group.shard.groups.get(APP)
        if not isinstance(group, StreamsGroup):
            return
        owners: dict[TaskId, str] = {}
        for process in self.processes:
            if not process.is_running or not process.core.is_member:
                continue
            member_id, epoch = process.core.member_id, process.core.generation_id
            known = group.members.get(member_id)
            for task in process.rig.manager.running:
                places = [(tp.topic, b"", tp.partition) for tp in task.partitions]
                if known is None or not (
                    epoch == known.epoch or group.has_had_since(member_id, epoch, places)
                ):
                    continue
                other = owners.setdefault(task.id, process.name)
                assert other == process.name, f"OneActive: {task.id} runs in {other} and {process.name}"

    def _end(self) -> None:
        self.is_faulty = False
        for process in self.processes:
            process.paused_until_ms = self.world.now_ms
        self.world.run(2 * SESSION_MS + TIMEOUT_MS)
        self.is_sending = False
        assert self.world.run(PATIENCE_MS, until=lambda: self.counted == self.sent), (
            f"Alive: counted {dict(self.counted)} of {dict(self.sent)}: {self.processes}"
        )
        assert self.world.run(PATIENCE_MS, until=self._is_settled), f"Alive: {self.processes}"
        for process in self.processes:
            for task in process.rig.manager.tasks.values():
                assert process.rows(task) == self._counts_of(task.id), f"StoresComplete: {task.id}"

    def _is_settled(self) -> bool:
        """Whether all tasks run and their standbys have restored the whole changelogs."""
        running = [task.id for each in self.processes for task in each.rig.manager.running]
        standbys = [
            (task_id, standby.lag, each.rows(standby.task))
            for each in self.processes
            for task_id, standby in each.rig.manager.standbys.tasks.items()
        ]
        has_all = Counter(task_id for task_id, _, _ in standbys) == Counter(running * STANDBYS)
        is_complete = all(lag == 0 and rows == self._counts_of(task_id) for task_id, lag, rows in standbys)
        return len(running) == PARTITIONS == len(set(running)) and has_all and is_complete

    def _counts_of(self, task_id: TaskId) -> dict[str, int]:
        return {
            word: count
            for word, count in self.sent.items()
            if WORDS.index(word) % PARTITIONS == task_id.partition
        }


class SimProcess:
    """A process with one thread. Its files are kept for the next process, unless the disk is wiped."""

    def __init__(self, sim: SimTasks, number: int) -> None:
        self.sim, self.world, self.number = sim, sim.world, number
        self.name, self.transactional_id = f"process {number}", f"{APP}-{number}"
        self.random = self.world.stream(self.name)
        self.paused_until_ms = 0
        self.life = 0
        self.is_running = False
        self._files = Files()
        self._disk = 0
        self._rigs: list[WorkerRig] = []

    def __repr__(self) -> str:
        if not self.is_running:
            return f"{self.name}: stopped"
        manager = self.rig.manager
        return (
            f"{self.name}: {self.core.state.value}, {self.core.tasks}, running"
            f" {[task.id for task in manager.running]}, standbys {list(manager.standbys.tasks)}"
        )

    @property
    def is_paused(self) -> bool:
        return self.world.now_ms < self.paused_until_ms

    def close_files(self) -> None:
        """Release the file locks of all its processes."""
        for rig in self._rigs:
            rig.directory.close()

    def rows(self, task: Any) -> dict[str, int]:
        """The store of a task."""
        with task.stores["store"].all() as rows:
            return {key: entry.value for key, entry in rows}

    # --- starts and ends ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the next process with the files of the previous one."""
        sim = self.sim
        self.life += 1
        self.is_running = True
        self.rig = rig = WorkerRig(
            sim.folder / f"{self.number}-{self._disk}",
            cluster=sim.log,
            files=self._files,
            transactional_id=self.transactional_id,
            guarantee="exactly_once_v2",
            commit_interval_ms=100,
            cache_bytes=sim.plan.cache_bytes,
        )
        self._rigs.append(rig)
        rig.now_ms = self.world.now_ms
        self.membership = ThreadMembership(
            rig.plan, f"process-{self.number}-{self._disk}", lambda: None, lambda: None
        )
        self.membership.use_offsets({}, {})
        instance = f"instance-{self.number}" if sim.plan.is_static else None
        config = MemberConfig(APP, instance, SESSION_MS, 300, max_poll_interval_ms=1_200)
        backoff = Backoff(20, 300, self.random)
        name = f"member-{self.number}-{self.life}"
        self.core = StreamsMember(config, name, backoff, self.membership.application)
        rig.consumer.member = self.core
        self.core.topics_changed({SOURCE: PARTITIONS}, {})
        self.core.subscribe((SOURCE,))
        self._turn_in(1, self.life)
        self._beat_in(1, self.life)

    def stop(self, *, is_clean: bool, is_wiped: bool) -> None:
        """End the process: it is killed, or closed; a static member then leaves the group temporarily."""
        if is_clean:
            self._guarded(lambda: self.rig.manager.close(clean=True))
            for effect in self.core.unsubscribe(leave=self.core.config.group_instance_id is None, reason=""):
                if isinstance(effect, SendRequest):
                    self.sim.ask_group(effect.api, effect.request)
        self.is_running = False
        self.rig.directory.close()
        if is_wiped:
            self._disk += 1
            self._files = Files()

    def _later(self, delay_ms: int, life: int, what: str, action: Callable[[], None]) -> None:
        """Schedule an event of this process; it runs after a pause."""

        def happen() -> None:
            if life != self.life or not self.is_running:
                return
            if self.is_paused:
                self._later(self.paused_until_ms - self.world.now_ms, life, what, action)
            else:
                action()

        self.sim.every(delay_ms, f"{self.name} {what}", happen)

    # --- the member -----------------------------------------------------------------------------------------

    def _beat_in(self, delay_ms: int, life: int) -> None:
        def beat() -> None:
            self._perform(self.core.poll(self.world.now_ms))
            due = self.core.next_due_ms()
            self._beat_in(max(10, min(200, (due or 0) - self.world.now_ms)), life)

        self._later(delay_ms, life, "beats", beat)

    def _perform(self, effects: Iterable[Any]) -> None:
        for effect in effects:
            assert isinstance(effect, (SendRequest, ForgetCoordinator)), effect
            if isinstance(effect, SendRequest):
                self._ask(effect, self.core)

    def _ask(self, request: SendRequest, core: StreamsMember) -> None:
        """Send a request; it and its response may be lost or late."""
        rng, loss = self.random, self.sim.plan.loss if self.sim.is_faulty else 0.0
        life, fails = self.life, (rng.random() < loss, rng.random() < loss)
        lost = NetworkError("no response")

        def arrive() -> None:
            answer = lost if fails[0] else self.sim.ask_group(request.api, request.request)
            answer = lost if fails[1] else answer
            delay_ms = 300 if answer is lost else rng.randrange(1, 30)
            self._later(delay_ms, life, "gets a response", lambda: respond(answer))

        def respond(answer: Any) -> None:
            now_ms = self.world.now_ms
            if isinstance(answer, KafkaError):
                self._perform(core.on_failure(request, answer, now_ms))
            else:
                self._perform(core.on_response(request, answer, now_ms))

        assert request.api in (STREAMS_GROUP_HEARTBEAT,)
        self.sim.every(rng.randrange(1, 30), f"{self.name} asks", arrive)

    # --- the thread -----------------------------------------------------------------------------------------

    def _turn_in(self, delay_ms: int, life: int) -> None:
        def turn() -> None:
            self.rig.now_ms = self.world.now_ms
            if self.core.error is not None:
                self.world.note(f"{self.name}: {self.core.error}")  # its instance id is in use
                self.stop(is_clean=False, is_wiped=False)
                self.sim.every(500, self.name, self.start)
                return
            self._guarded(self._turn)
            self.sim.check()
            is_slow = self.sim.is_faulty and self.random.random() < 0.01
            self._turn_in(self.random.randrange(5, 2_000 if is_slow else 60), life)

        self._later(delay_ms, life, "has a turn", turn)

    def _guarded(self, work: Callable[[], object]) -> None:
        """Handle errors as `StreamThread.run` does."""
        manager = self.rig.manager
        try:
            work()
        except (TaskMigratedError, CommitFailedError):
            manager.reset()
        except (TaskRetryError, StoreFullError) as failure:
            manager.retry(failure)
        except TaskCorruptedError as corrupted:
            manager.reset(corrupted.task_id)

    def _turn(self) -> None:
        rig, manager, now_ms = self.rig, self.rig.manager, self.world.now_ms
        manager.check_transaction()
        if self.membership.offsets_due(now_ms, manager.standbys.lag_of):
            stored = rig.directory.stored_offsets()
            self.membership.use_offsets(
                {task: each.offset for task, each in stored.items()} | manager.task_offsets(),
                {task: each.end for task, each in stored.items()} | manager.task_end_offsets(),
            )
        self._change_assignment()
        rig.read()
        if rig.restorer.is_busy or manager.is_waiting:
            manager.restore(0)
        elif len(manager.by_partition) < len(manager.owned):
            manager.open_tasks()
        rig.process(self.random.randrange(1, 8))
        if self.random.random() < 0.3:
            manager.update_standbys(is_idle=True)
        rig.output.poll()
        manager.resume_drained()
        manager.commit_due(now_ms)

    def _change_assignment(self) -> None:
        """Change the assignment as the consumer does in `poll`, and call the callbacks of `StreamThread`."""
        core, manager, consumer = self.core, self.rig.manager, self.rig.consumer
        core.polled(self.world.now_ms)
        while (change := core.begin()) is not None:
            manager.use_roles(*self.membership.roles)
            if change.kind is ChangeKind.ASSIGNED:
                consumer.add(change.partitions)
                manager.assign(change.partitions)
            else:
                self._take_away(change.kind, change.partitions)
                consumer.drop(change.partitions)
            self._perform(core.on_done(self.world.now_ms))

    def _take_away(self, kind: ChangeKind, partitions: tuple[TopicPartition, ...]) -> None:
        manager = self.rig.manager
        if kind is ChangeKind.LOST:
            manager.lose(partitions)
            return
        try:
            manager.revoke(partitions)
        except (TaskMigratedError, TaskRetryError, CommitFailedError):
            manager.lose(partitions)
