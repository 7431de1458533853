"""A stream thread: polls records, restores, processes, punctuates and commits its tasks."""

from __future__ import annotations

import logging
import re
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.errors import ClosedError, CommitFailedError, HeadraceError, WakeupError
from ..errors import TaskCorruptedError, TaskMigratedError, TaskRetryError
from ..metrics.meters import ThreadMeters
from ..query.local_io import holders_of
from ..state.engines import StoreFullError
from ..state.thread_cache import ThreadCache
from .async_calls_io import ThreadCalls
from .metadata import ThreadMetadata, ThreadState, changelogs_of, described
from .output_io import Output
from .partition_runs import partition_runs
from .restorer_io import Restorer
from .standby_reader_io import StandbyReader
from .summary import Summary
from .task_maker_io import TaskMaker
from .task_manager_io import TaskManager
from .thread_membership import REFUSALS, ThreadMembership, main_config
from .topics_io import with_topics
from .turn_length import TurnLength

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...clients.sync.consumer_io import Consumer
    from ...protocol.model import TopicPartition
    from ..query.local_io import Holder
    from ..task.task import Task
    from .async_calls_io import FunctionLoop
    from .clients_io import Clients
    from .plan import AppPlan
    from .state_directory_io import StateDirectory

log = logging.getLogger("headrace.stream")

_RESTORE_SHARE_S = 0.1
_NO_TOPIC = re.compile("(?!)")
_clock_ns = time.perf_counter_ns


def wall_ms() -> int:
    """The wall clock in ms."""
    return time.time_ns() // 1_000_000


class ThreadListener(Protocol):
    """What a thread calls. `tasks_changed`: tasks were assigned, restored or closed; `shutdown_requested`: a
    member of the group wants the application to end; `group_changed`: members or topics of the group
    changed."""

    def tasks_changed(self) -> None: ...

    def thread_failed(self, thread: StreamThread, error: BaseException) -> None: ...

    def shutdown_requested(self) -> None: ...

    def group_changed(self) -> None: ...


class StreamThread:
    """Runs tasks until `close`, or until an error that `listener` receives."""

    def __init__(
        self,
        name: str,
        plan: AppPlan,
        clients: Clients,
        directory: StateDirectory,
        loop: FunctionLoop,
        global_stores: Mapping[str, Any],
        thread_count: Callable[[], int],
        listener: ThreadListener,
    ) -> None:
        self.name, self._plan = name, plan
        self._clients, self._directory, self._loop = clients, directory, loop
        self._global_stores = global_stores
        self._thread_count = thread_count
        self._cache = ThreadCache(self._cache_share)
        self._listener = listener
        self._requests_shutdown = self._leaves = self._is_stopped = False
        self._next_plan = self._newest_plan = plan  # `_plan` is the newest one, completed
        self._closing = threading.Event()
        self._state = ThreadState.CREATED
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)
        self._consumer: Consumer[bytes, bytes] | None = None
        self.manager: TaskManager | None = None
        self.meters = ThreadMeters(wall_ms())
        self._turn = TurnLength()

    # --- control, from other threads --------------------------------------------------------------------

    def start(self) -> None:
        """Begin to run."""
        self._thread.start()

    def close(self, *, leaves: bool = False) -> None:
        """Ask the thread to commit, close its tasks and end; `join` waits for it. With `leaves` it leaves its
        group also as a static member, which else keeps its tasks for its return."""
        self._leaves = leaves
        self._closing.set()
        consumer = self._consumer
        if consumer is not None:
            with suppress(ClosedError):  # the thread has ended already
                consumer.wakeup()

    def join(self, timeout_s: float | None) -> bool:
        """Wait for the end of the thread. False if it has not ended in time."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def request_shutdown(self) -> None:
        """Tell all members of the group to end, with a heartbeat at once."""
        self._requests_shutdown = True

    def use_plan(self, plan: AppPlan) -> None:
        """Subscribe to the topics of this plan with the next turn."""
        self._next_plan = plan

    def stop(self, *, is_stopped: bool) -> None:
        """Pause processing, or end that; the thread stays in its group."""
        self._is_stopped = is_stopped

    @property
    def restored_records(self) -> int:
        """Records that the thread has read from changelogs."""
        return 0 if self.manager is None else self._restorer.restored

    def purgeable(self) -> Mapping[TopicPartition, int]:
        """The committed offsets of repartition topics."""
        return {} if self.manager is None else self.manager.commits.purgeable

    @property
    def ident(self) -> int | None:
        """Of the operating system's thread; None before `start`."""
        return self._thread.ident

    @property
    def member_id(self) -> str:
        """In the group; empty before the thread has joined."""
        return "" if self._consumer is None else self._consumer.group_metadata().member_id

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def state(self) -> ThreadState:
        """What the thread does. From any thread."""
        if self._thread.ident is not None and not self._thread.is_alive():
            return ThreadState.DEAD
        if self._closing.is_set() and self._state is not ThreadState.CREATED:
            return ThreadState.PENDING_SHUTDOWN
        return self._state

    def metadata(self) -> ThreadMetadata:
        """The thread and its tasks. From any thread."""
        manager = self.manager
        if manager is None:
            return ThreadMetadata(self.name, self.state, ())
        tasks = described(list(manager.tasks.values()), dict(manager.commits.committed))
        standbys = described((each.task for each in manager.standbys.tasks.values()), {})
        return ThreadMetadata(self.name, self.state, tasks, standbys)

    def positions(self) -> dict[tuple[str, TopicPartition], int | None]:
        """By store and its changelog the next offset to restore; None: the store is complete. Standbys are
        never complete. From any thread."""
        if self.manager is None:
            return {}
        found = {
            (store, changelog): position
            for standby in self.manager.standbys.tasks.values()
            for store, changelog, position in standby.positions()
        }
        active = changelogs_of(list(self.manager.tasks.values()))
        return {**found, **{each: self._restorer.position(each[1]) for each in active}}

    def holders(self) -> list[Holder]:
        """The tasks and standbys of the thread, for queries. From any thread."""
        if self.manager is None:
            return []
        return holders_of(self.manager, lambda: self._membership.has_recent_response(wall_ms()))

    @property
    def is_restored(self) -> bool:
        """Whether a rebalance has ended and all tasks of the thread are running."""
        manager = self.manager
        if manager is None or self._state is not ThreadState.RUNNING:
            return False
        if len(manager.by_partition) < len(manager.owned):
            return False  # a task could not be opened yet
        return all(task in manager.running for task in list(manager.tasks.values()))

    @property
    def _cache_share(self) -> int:
        return self._plan.config.cache_bytes // self._thread_count()

    # --- the thread -------------------------------------------------------------------------------------

    def run(self) -> None:
        """What the thread does, until `close` or an error."""
        error: BaseException | None = None
        self._state = ThreadState.STARTING
        try:
            self._open()
            while not self._closing.is_set():
                try:
                    self._step()
                except (TaskMigratedError, CommitFailedError) as lost:
                    log.warning("%s drops its tasks and reads them again: %s", self.name, lost)
                    self._tasks.reset()
                except (TaskRetryError, StoreFullError) as failure:
                    log.warning("%s reads its tasks again from their last commit: %s", self.name, failure)
                    self._tasks.retry(failure)
                except TaskCorruptedError as corrupted:
                    log.warning("%s restores its tasks: %s", self.name, corrupted)
                    self._tasks.reset(corrupted.task_id)
        except BaseException as found:  # noqa: BLE001 -- the application decides
            error = found
        self._end(clean=error is None)
        if error is not None:
            self._listener.thread_failed(self, error)

    def _open(self) -> None:
        plan, configs = self._plan, self._plan.client_configs
        transactional_id = None
        if plan.config.is_exactly_once:
            transactional_id = (
                f"{plan.config.application_id}-{self._directory.process_id}-{self.name.rpartition('-')[2]}"
            )
        listener = self._listener
        self._membership = ThreadMembership(
            *(plan, self._directory.process_id, listener.shutdown_requested, listener.group_changed)
        )
        self._membership.application.requests_shutdown = self._requests_shutdown
        self._output = Output(self._clients, configs["producer"], transactional_id, plan.changelogs())
        self._consumer = consumer = self._clients.consumer(
            main_config(configs["main.consumer"], self.name), self._membership.application
        )
        self._restorer = Restorer(
            *(self._clients, configs["restore.consumer"], configs["admin"], self._committed),
            plan.restore_listener,
        )
        reader = StandbyReader(
            *(self._clients, configs["restore.consumer"], self._committed, plan.restore_listener)
        )
        self._calls = ThreadCalls(self._loop, consumer.wakeup)
        maker = TaskMaker(
            *(plan, self.name, self._output, self._directory, self._calls, self._global_stores),
            *(self._cache, wall_ms),
        )
        self.manager = TaskManager(
            *(plan, self.name, consumer, self._output, self._restorer, reader, maker, self._calls, wall_ms),
            self._thread_count,
        )
        self._report_offsets()  # the first assignment depends on it
        self._summary = Summary(plan.config.log_summary_interval_ms, wall_ms())
        self._subscribe()

    def _subscribe(self) -> None:
        """Read the source topics of the plan; without any, because none matches a pattern yet, be a member of
        the group all the same."""
        assert self._consumer is not None
        topics = sorted(self._plan.partitions)
        self._consumer.subscribe(topics, pattern=None if topics else _NO_TOPIC, listener=self)

    def _use_next_plan(self) -> None:
        """Topics that match a pattern came or went. The heartbeat that follows has the coordinator look."""
        self._plan = plan = self._newest_plan = self._next_plan
        self._membership.use_plan(plan)
        self._subscribe()
        self._tasks.use_plan(plan)

    def _committed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int | None]:
        assert self._consumer is not None
        found = self._consumer.committed(*partitions)
        return {tp: None if offset is None else offset.offset for tp, offset in found.items()}

    @property
    def _tasks(self) -> TaskManager:
        assert self.manager is not None
        return self.manager

    # called inside `poll`

    def on_assigned(self, _consumer: Any, partitions: tuple[TopicPartition, ...]) -> None:
        """Open the tasks of these partitions."""
        self._move(ThreadState.PARTITIONS_ASSIGNED)
        roles = self._membership.roles
        self._complete_plan(roles.sub_topologies)
        self._tasks.use_roles(*roles)
        self._tasks.assign(partitions)

    def on_revoked(self, _consumer: Any, partitions: tuple[TopicPartition, ...]) -> None:
        """Commit and close the tasks of these partitions."""
        self._move(ThreadState.PARTITIONS_REVOKED)
        roles = self._membership.roles
        self._complete_plan(roles.sub_topologies)
        self._tasks.use_roles(*roles)
        try:
            self._tasks.revoke(partitions)
        except (TaskMigratedError, TaskRetryError, CommitFailedError) as error:
            log.warning("%s cannot commit revoked tasks: %s", self.name, error)
            self._tasks.lose(partitions)

    def on_lost(self, _consumer: Any, partitions: tuple[TopicPartition, ...]) -> None:
        """Close the tasks of these partitions without a commit."""
        self._move(ThreadState.PARTITIONS_REVOKED)
        self._tasks.use_roles(*self._membership.roles)
        self._tasks.lose(partitions)

    def _complete_plan(self, sub_topologies: frozenset[int]) -> None:
        """The coordinator has created the internal topics of the assigned tasks: their ids are needed now."""
        plan = with_topics(self._plan, self._clients, sub_topologies)
        if plan is not self._plan:
            self._plan = plan
            self._tasks.use_plan(plan)

    def _move(self, state: ThreadState) -> None:
        self._state = state
        self._listener.tasks_changed()

    def _end_rebalance(self) -> None:
        """RUNNING behind a rebalance whose tasks are all opened and restored."""
        tasks = self._tasks
        if len(tasks.by_partition) == len(tasks.owned) and len(tasks.running) == len(tasks.tasks):
            self._move(ThreadState.RUNNING)

    # one turn

    def _step(self) -> None:
        tasks = self._tasks
        tasks.check_transaction()
        self._check_group()
        if self._next_plan is not self._newest_plan:
            self._use_next_plan()
        if tasks.is_stopped != self._is_stopped:
            tasks.stop(is_stopped=self._is_stopped)
        self._cache.resize(self._cache_share)
        self._read(0 if self._has_work() else self._idle_s())
        self._restore()
        self.meters.keep(tasks.tasks.keys(), wall_ms())
        if self._state is ThreadState.PARTITIONS_ASSIGNED:
            self._end_rebalance()
        now = wall_ms()
        for task in tasks.running:
            task.forward_results(now)
        running = [] if self._is_stopped else tasks.running
        before = self._summary.records
        if running:
            self._process(running, now)
        tasks.update_standbys(is_idle=self._summary.records == before)
        self._output.poll()
        tasks.resume_drained()
        now = wall_ms()
        before_ns = _clock_ns()
        if tasks.commit_due(now):
            self._summary.commits += 1
            self.meters.commit.record((_clock_ns() - before_ns) / 1e6, now)
        text = self._summary.text_if_due(now, len(running))
        if text is not None:
            log.info("%s %s", self.name, text)

    def _check_group(self) -> None:
        """Errors: those of `ThreadMembership.check`."""
        application = self._membership.application
        if self._requests_shutdown and not application.requests_shutdown:
            assert self._consumer is not None
            application.requests_shutdown = True
            self._consumer.enforce_rebalance("the application is to end")
        now = wall_ms()
        self._membership.check(now)
        if self._membership.offsets_due(now, self._tasks.standbys.lag_of):
            self._report_offsets()

    def _report_offsets(self) -> None:
        """Those of the thread's tasks, and of stores in the state directory that no thread has open."""
        stored = self._directory.stored_offsets()
        offsets = {task_id: each.offset for task_id, each in stored.items()}
        ends = {task_id: each.end for task_id, each in stored.items()}
        self._membership.use_offsets(
            offsets | self._tasks.task_offsets(), ends | self._tasks.task_end_offsets()
        )

    def _has_work(self) -> bool:
        return (
            self._restorer.is_busy
            or self._tasks.standbys.has_work
            or (not self._is_stopped and any(task.is_ready(wall_ms()) for task in self._tasks.running))
        )

    def _idle_s(self) -> float:
        """How long a poll may wait: poll.ms, the next commit, the next punctuator."""
        now = wall_ms()
        tasks = self._tasks.running
        wait_ms = min(self._plan.config.poll_ms, max(self._tasks.commit_at_ms - now, 1))
        for task in tasks:
            due = task.next_punctuation()
            if due is not None:
                wait_ms = min(wait_ms, max(due - now, 0))
        return wait_ms / 1000

    def _read(self, timeout_s: float) -> None:
        assert self._consumer is not None
        may_wait = self._calls.begin_wait()
        before_ns = _clock_ns()
        try:
            count = self._read_once(self._consumer, timeout_s if may_wait else 0)
            self.meters.polled_records(count, _clock_ns() - before_ns, wall_ms())
        except WakeupError:
            return
        except REFUSALS as error:
            raise self._membership.refused(error) from error
        finally:
            self._calls.end_wait()
        tasks = self._tasks.running
        if any(len(task.partitions) > 1 for task in tasks):
            lags = {tp: lag for tp, lag in self._consumer.lag().items() if lag is not None}
            for task in tasks:
                task.group.use_lags(lags)

    def _read_once(self, consumer: Consumer[bytes, bytes], timeout_s: float) -> int:
        """The number of records."""
        if not self._plan.column_paths:
            records = consumer.poll(timeout_s)
            for partition, run in partition_runs(records):
                self._tasks.add_records(partition, run)
            return len(records)
        batch = consumer.poll_arrow(timeout_s)
        if batch is None:
            return 0
        self._tasks.add_columns(batch)
        count: int = batch.num_rows
        return count

    def _restore(self) -> None:
        if not self._restorer.is_busy and not self._tasks.is_waiting:
            if len(self._tasks.by_partition) < len(self._tasks.owned):
                self._tasks.open_tasks()
            return
        waits = not self._tasks.running
        before, before_ns = self._restorer.restored, _clock_ns()
        if self._tasks.restore(_RESTORE_SHARE_S if waits else 0):
            self._listener.tasks_changed()
        took_ms = (_clock_ns() - before_ns) / 1e6
        self.meters.restored.record(took_ms, wall_ms(), self._restorer.restored - before)

    def _process(self, running: list[Task], now: int) -> None:
        """Records of all tasks by turns, up to a commit that is due or a poll that is."""
        end_ms = now + self._plan.config.poll_ms
        measured = [(task, self.meters.of(task)) for task in running]
        began_ns = at_ns = _clock_ns()
        while measured:
            busy = []
            for task, meter in measured:
                count = task.process_run(now, self._turn.records)
                then_ns = _clock_ns()
                meter.add(count, then_ns - at_ns)
                if self._turn.ended(count, then_ns - at_ns):
                    busy.append((task, meter))
                at_ns = then_ns
            measured = busy
            now = wall_ms()
            if now >= end_ms or self._closing.is_set():
                break
            if now >= self._tasks.commit_at_ms or self._tasks.is_commit_due:
                break
        self._summary.records += self.meters.end_turn(running, at_ns - began_ns, now)
        punctuated = sum(task.punctuate_wall_time(now) for task in running)
        if punctuated:
            self.meters.punctuate.record((_clock_ns() - at_ns) / 1e6, now, punctuated)

    def _end(self, *, clean: bool) -> None:
        """Close everything; an error at the end is logged, not raised: what was committed stays. After an
        error another thread may take the place of this one: it leaves the group also as a static member."""
        manager, consumer = self.manager, self._consumer
        steps: list[Callable[[], object]] = []
        if manager is not None:
            steps += [lambda: manager.close(clean=clean), self._restorer.close]
        if consumer is not None:
            leave = True if self._leaves or not clean else None
            steps += [lambda: consumer.close(leave=leave), self._output.close]
        for step in steps:
            try:
                step()
            except HeadraceError as error:
                log.warning("%s, while it closes: %s", self.name, error)
        self._listener.tasks_changed()
