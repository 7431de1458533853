"""An instance of an application: its topics, threads, stores and state in one process."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError
from ..errors import StreamsError
from ..metrics.exported import write_metrics
from ..metrics.metrics import ClientFacts, instance_metrics
from ..metrics.names import Level
from ..query.connect_io import queries_of
from ..query.hosts_io import GroupHosts
from ..query.local_io import LocalStores
from ..query.secrets_io import query_keys
from ..query.server_io import QueryServer, listen
from ..query.views_io import ViewOptions, view_of
from ..snapshots.open_io import open_snapshots
from ..watch.instance_io import instance_status, metric_source
from ..watch.lags_io import store_lags
from .async_calls_io import FunctionLoop
from .clients_io import Clients
from .global_thread_io import GlobalThread
from .group_configs_io import use_group_configs
from .listeners_io import RestoreListener, StateListener, StateNotices
from .planner_io import Planner
from .state_directory_io import StateDirectory
from .states import INSTANCE_TRANSITIONS, InstanceState
from .stored_offsets_io import read_stored_offsets
from .thread_io import StreamThread, wall_ms
from .topic_watch_io import TopicWatch
from .uncaught import REPLACE_THREAD, SHUTDOWN_APPLICATION, UncaughtHandler, shut_down
from .upkeep_io import Upkeep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from ...protocol.messages.streams_status import InstanceStatus
    from ...protocol.model import TopicPartition
    from ...runtime.telemetry.samples import Samples
    from ..config import StreamsConfig
    from ..metrics.names import MetricName
    from ..query.client_io import Queries
    from ..query.gate_io import QueryGate
    from ..query.local_io import Holder
    from ..query.queries import Query, StateQueryResult
    from ..state.engines import Engine
    from ..task.settings import TaskSettings
    from ..topology.topology import Topology
    from .metadata import LagInfo, ThreadMetadata
    from .plan import AppPlan

log = logging.getLogger("headrace.stream")


class AppInstance:
    """Runs a topology until `close`, or until an error ends it. Use it in a `with` statement.

    `bootstrap` as for `Producer`; `clients` instead of it: those of a test. `client_configs` by prefix, as
    `split_config` returns them.
    """

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        settings: TaskSettings,
        *,
        bootstrap: Any = None,
        clients: Clients | None = None,
        client_configs: Mapping[str, Mapping[str, Any]] | None = None,
        open_engine: Callable[[Path, str], Engine],
        on_uncaught: UncaughtHandler = shut_down,
        on_state_change: StateListener | None = None,
        on_restore: RestoreListener | None = None,
    ) -> None:
        self.config = config
        self._clients = clients or Clients(bootstrap)
        self._client_configs = client_configs or {}
        self._planner = Planner(
            *(topology, config, settings, self._clients, self._client_configs, open_engine, on_restore)
        )
        self._on_uncaught = on_uncaught
        self._notices = StateNotices(on_state_change)
        self._state = InstanceState.CREATED
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._shutdown_error: BaseException | None = None
        self._threads: list[StreamThread] = []
        self._made = self._failed = 0  # threads
        self._global: GlobalThread | None = None
        self._directory: StateDirectory | None = None
        self._plan: AppPlan | None = None
        self._upkeep: Upkeep | None = None
        self._watch: TopicWatch | None = None
        self._loop = FunctionLoop(f"{config.application_id}-functions")
        self._is_stopped = False
        self._queries: Queries | None = None
        self._query_server: QueryServer | None = None
        self._stores = LocalStores(
            *(self._plan_of_queries, self._holders, self._global_stores), isolation=config.query_isolation
        )

    # --- state ------------------------------------------------------------------------------------------

    @property
    def state(self) -> InstanceState:
        return self._state

    @property
    def error(self) -> BaseException | None:
        """The error that ended the instance."""
        return self._error

    def _move(self, state: InstanceState) -> bool:
        """Change the state where the table allows it. False if not."""
        with self._changed:
            if state not in INSTANCE_TRANSITIONS[self._state]:
                return False
            log.info("%s: %s to %s", self.config.application_id, self._state.value, state.value)
            self._notices.add(state, self._state)
            self._state = state
            self._changed.notify_all()
        self._notices.send()
        return True

    def wait_for(self, *states: InstanceState, timeout_s: float | None = None) -> bool:
        """Wait for one of these states. False after `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._state in states, timeout_s)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the instance has ended. False after `timeout_s`. Errors: the one that ended it."""
        ended = self.wait_for(InstanceState.NOT_RUNNING, InstanceState.ERROR, timeout_s=timeout_s)
        if self._error is not None:
            raise self._error
        return ended

    @property
    def threads(self) -> tuple[ThreadMetadata, ...]:
        """The stream threads of this instance, with their tasks."""
        return tuple(thread.metadata() for thread in list(self._threads))

    def lags(self) -> dict[str, dict[int, LagInfo]]:
        """How complete the stores of this instance are, by name and partition of the task; asks the cluster
        for the ends of the changelogs. Errors: HeadraceError."""
        positions = {
            found: position
            for thread in list(self._threads)
            for found, position in thread.positions().items()
        }
        return store_lags(positions, self._planner.admin)

    def status(self, sample_ms: int = 0) -> InstanceStatus:
        """The state of the instance, its threads, tasks and stores. `sample_ms`: for how long to look which
        operators take the time; the call takes as long. From any thread."""
        process_id = "" if self._directory is None else self._directory.process_id
        return instance_status(process_id, self._state.value, list(self._threads), wall_ms(), sample_ms)

    def metrics(self) -> dict[MetricName, float | str]:
        """By name, group and tags of Kafka Streams, of the level metrics.recording.level. From any thread."""
        facts = ClientFacts(self.config.application_id, self._planner.description, self._failed)
        threads = {thread.name: metric_source(thread) for thread in list(self._threads)}
        level = Level[self.config.metrics_level]
        return instance_metrics(facts, self.status(), threads, level, wall_ms())

    def measure(self, samples: Samples) -> None:
        """Add the metrics to those that exporters read, see `headrace.export_metrics`."""
        write_metrics(self.metrics(), samples)

    # --- queries ------------------------------------------------------------------------------------------

    def store(
        self,
        name: str,
        *,
        kind: str | None = None,
        partition: int | None = None,
        stale: bool = False,
        isolation: str | None = None,
        values_only: bool = False,
    ) -> Any:
        """A read-only view of a store, over the tasks that this instance has, for any thread; keys of other
        instances are not found. It is a ReadOnlyKeyValueStore, ReadOnlyWindowStore, ReadOnlySessionStore or
        ReadOnlyVersionedStore.

        `kind`: "key_value", "window", "session" or "versioned", where it is to be checked. `partition`: only
        that of this task. `stale`: standbys and stores that are being restored answer, too. `isolation`:
        "read_committed" or "read_uncommitted", in place of default.state.isolation.level. `values_only`:
        values without their timestamps. Iterators must be closed.

        Errors: UnknownStoreError, WrongStoreKindError, StoreUnavailableError if the instance does not run;
        of the calls of a view StoreMigratedError and StoreUnavailableError, both retriable.
        """
        return view_of(self._stores, name, kind, ViewOptions(partition, stale, isolation, values_only))

    def query(
        self,
        store: str,
        query: Query,
        *,
        partitions: Iterable[int] | None = None,
        bound: Mapping[TopicPartition, int] | None = None,
        require_active: bool = False,
        isolation: str | None = None,
    ) -> StateQueryResult:
        """The results of a query by partition (IQv2), from the tasks and standbys that this instance has.

        `partitions` None: all that are here. `bound`: only stores that have seen the records up to these
        offsets answer; the position of a result can be given. `require_active`: no standbys, and nothing that
        is being restored. Results with several rows are iterators, which must be closed.

        Errors: UnknownStoreError, StoreUnavailableError if the instance does not run; those of a partition
        are in its result.
        """
        return self._stores.query(
            *(store, query),
            partitions=partitions,
            bound=bound,
            require_active=require_active,
            isolation=isolation,
        )

    @property
    def queries(self) -> Queries:
        """A handle for queries about any key, sent to the instance that has it. It is closed with this
        instance. Errors: StoreUnavailableError if the instance does not run."""
        plan = self._stores.plan()
        with self._changed:
            if self._queries is None:
                name = self.config.application_id
                hosts = GroupHosts(name, self._planner.admin())
                keys = query_keys(self.config, name)
                self._queries = queries_of(name, plan.built, plan.settings, hosts, keys=keys)
            return self._queries

    def _plan_of_queries(self) -> AppPlan | None:
        runs = self._state in (InstanceState.RUNNING, InstanceState.REBALANCING)
        return self._plan if runs else None

    def _holders(self) -> list[Holder]:
        return [holder for thread in list(self._threads) for holder in thread.holders()]

    def _global_stores(self) -> tuple[Mapping[str, Any], QueryGate] | None:
        return None if self._global is None else (self._global.stores, self._global.gate)

    # --- start and end ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Check the topics, restore global stores, start the threads. The coordinator of the group creates
        internal topics. A topology with global stores only has no tasks: it needs no threads and no group.

        Errors: InternalTopicError, StateDirectoryError, StreamsError if it was started before.
        """
        if not self._move(InstanceState.REBALANCING):
            raise StreamsError(f"an instance starts once, this one is {self._state.value}")
        try:
            self._query_server, self.config = listen(
                self._stores, self.config, self.status, self._planner.security_protocol
            )
            self._planner.config = self.config
            plan = self.prepare()
            if plan.built.source_patterns():
                self._watch = TopicWatch(self._planner, plan, self._use_plan, self._watch_failed)
            for _ in range(self.config.threads if plan.sub_topologies else 0):
                self._threads.append(self._new_thread(plan))
            for thread in self._threads:
                thread.start()
            self._upkeep = self._new_upkeep()
            self._upkeep.start()
            if self._watch is not None:
                self._watch.start()
            if not plan.sub_topologies:
                self._move(InstanceState.RUNNING)
        except BaseException as error:
            self._error = error
            self._move(InstanceState.PENDING_ERROR)
            self._end(InstanceState.ERROR, None)
            raise

    def prepare(self) -> AppPlan:
        """Check the topics, set configs of the group, open the state directory, restore global stores.

        Errors: InternalTopicError, StateDirectoryError.
        """
        with self._planner.admin() as admin:
            plan = self._planner.first_plan(admin)
            use_group_configs(admin, self.config)
        self._directory = StateDirectory(
            self.config.state_dir,
            self.config.application_id,
            group_writes=self.config.group_writes_state,
        )
        self._directory.snapshots = open_snapshots(self.config, self._directory.path)
        if self.config.state_max_age_ms >= 0:
            self._directory.clean(wall_ms(), self.config.state_max_age_ms)
        read_stored_offsets(self._directory, plan, self._planner.admin)
        global_topology = plan.built.global_topology()
        if global_topology is not None:
            name = f"{self.config.application_id}-global"
            self._global = GlobalThread(
                *(name, plan, global_topology, plan.global_partitions),
                *(self._clients, self._directory, self._global_failed, plan.restore_listener),
            )
            self._global.open()
        self._plan = plan
        return plan

    def _new_upkeep(self) -> Upkeep:
        assert self._directory is not None
        configs = self._client_configs.get("admin", {})
        return Upkeep(self.config, self._clients, configs, self._directory, self._purgeable)

    def _purgeable(self) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for thread in list(self._threads):
            for partition, offset in thread.purgeable().items():
                found[partition] = max(offset, found.get(partition, 0))
        return found

    def _new_thread(self, plan: AppPlan) -> StreamThread:
        assert self._directory is not None
        self._made += 1
        return StreamThread(
            f"{self.config.application_id}-thread-{self._made}",
            plan,
            self._clients,
            self._directory,
            self._loop,
            {} if self._global is None else self._global.stores,
            lambda: max(len(self._threads), 1),
            self,
        )

    def close(self, timeout_s: float | None = None) -> bool:
        """Commit and close everything. False if a thread has not ended in time."""
        if self._move(InstanceState.PENDING_SHUTDOWN):
            return self._end(InstanceState.NOT_RUNNING, timeout_s)
        return self.wait_for(InstanceState.NOT_RUNNING, InstanceState.ERROR, timeout_s=timeout_s)

    def _end(self, state: InstanceState, timeout_s: float | None) -> bool:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        for thread in self._threads:
            thread.close()
        ended = True
        for thread in self._threads:
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            ended = thread.join(left) and ended
        if ended:
            self._loop.close()
        for part in (self._upkeep, self._watch, self._query_server, self._queries):
            if part is not None:
                part.close()
        if self._global is not None:
            try:
                self._global.close()
            except HeadraceError as error:
                log.warning("the global thread, while it closes: %s", error)
        if self._directory is not None and ended:
            self._directory.clean(wall_ms(), self.config.state_cleanup_delay_ms)
            self._directory.close()
        self._stores.warn_of_leaks()
        self._move(state)
        return ended

    def __enter__(self) -> Self:
        if self._state is InstanceState.CREATED:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- while it runs ----------------------------------------------------------------------------------

    def _use_plan(self, plan: AppPlan) -> None:
        """Topics that match a pattern came or went."""
        self._plan = plan
        for thread in list(self._threads):
            thread.use_plan(plan)

    def _watch_failed(self, error: BaseException) -> None:
        """Topics that match a pattern do not fit the topology."""
        self._shared_part_failed("a topic that matches a pattern cannot be read", error)

    def pause(self) -> None:
        """Stop processing; the instance stays in its group."""
        self._stop(is_stopped=True)

    def resume(self) -> None:
        """Process again."""
        self._stop(is_stopped=False)

    @property
    def restored_records(self) -> int:
        """Records that the running threads have read from changelogs."""
        return sum(thread.restored_records for thread in list(self._threads))

    @property
    def is_paused(self) -> bool:
        return self._is_stopped

    def _stop(self, *, is_stopped: bool) -> None:
        self._is_stopped = is_stopped
        for thread in self._threads:
            thread.stop(is_stopped=is_stopped)

    def add_thread(self) -> str:
        """Start one more thread; its name. Errors: StreamsError if the instance does not run."""
        return self._start_thread().name

    def _start_thread(self) -> StreamThread:
        if self._plan is None or self._state not in (InstanceState.RUNNING, InstanceState.REBALANCING):
            raise StreamsError(f"the instance is {self._state.value}")
        if not self._plan.sub_topologies:
            raise StreamsError("the topology has global stores only: there is nothing for a thread to do")
        thread = self._new_thread(self._plan)
        thread.stop(is_stopped=self._is_stopped)
        self._threads.append(thread)
        thread.use_plan(self._plan)  # it may have changed meanwhile
        thread.start()
        return thread

    def remove_thread(self, timeout_s: float | None = None) -> str | None:
        """Close the newest thread; its name, None without threads."""
        if not self._threads:
            return None
        thread = self._threads.pop()
        thread.close(leaves=True)
        thread.join(timeout_s)
        return thread.name

    # called by threads; see ThreadListener

    def tasks_changed(self) -> None:
        """The instance runs when all tasks of all threads do."""
        alive = [thread for thread in self._threads if thread.is_alive]
        all_run = bool(alive) and all(thread.is_restored for thread in alive)
        self._move(InstanceState.RUNNING if all_run else InstanceState.REBALANCING)

    def _global_failed(self, error: BaseException) -> None:
        self._shared_part_failed("the thread of the global stores ended", error)

    def _shared_part_failed(self, problem: str, error: BaseException) -> None:
        """What all threads need cannot go on, and cannot be replaced."""
        log.error("%s", problem, exc_info=error)
        if self._on_uncaught(error) == SHUTDOWN_APPLICATION:
            self._end_application(error, [each for each in self._threads if each.is_alive])
        else:
            self._fail(error)

    def _end_application(self, error: BaseException, threads: list[StreamThread]) -> None:
        """Tell all instances to end, through the heartbeats of these threads."""
        self._shutdown_error = error
        for thread in threads:
            thread.request_shutdown()

    def thread_failed(self, thread: StreamThread, error: BaseException) -> None:
        log.error("%s ended", thread.name, exc_info=error)
        self._failed += 1
        if self._state not in (InstanceState.RUNNING, InstanceState.REBALANCING):
            return  # it ends already
        decision = self._on_uncaught(error)
        if decision not in (REPLACE_THREAD, SHUTDOWN_APPLICATION):
            self._fail(error)
            return
        self._threads.remove(thread)
        alive = [each for each in self._threads if each.is_alive]
        if decision == REPLACE_THREAD or not alive:  # a thread carries the request to the group
            alive.append(self._start_thread())
        if decision == SHUTDOWN_APPLICATION:
            self._end_application(error, alive)

    def shutdown_requested(self) -> None:
        """A member of the group has requested the end of the application."""
        self._fail(
            self._shutdown_error or StreamsError("another instance has requested the end of the application")
        )

    def group_changed(self) -> None:
        """Topics may be the reason."""
        if self._watch is not None:
            self._watch.look_soon()

    def _fail(self, error: BaseException) -> None:
        """End the instance from another thread: the one that failed cannot wait for itself."""
        if self._move(InstanceState.PENDING_ERROR):
            self._error = error
            name = f"{self.config.application_id}-shutdown"
            threading.Thread(
                target=self._end, args=(InstanceState.ERROR, None), name=name, daemon=True
            ).start()
