"""The stores of the tasks of this instance, for queries from any thread."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from ...clients.serdes import BAD_DATA
from ...protocol.errors import HeadraceError, SerializationError
from ...runtime.nearest import did_you_mean
from ..task.states import TaskState
from ..topology.serdes import resolve
from .errors import (
    InvalidStorePartitionError,
    StoreMigratedError,
    StoreUnavailableError,
    UnknownStoreError,
    WrongStoreKindError,
)
from .execute import run_query
from .position import Position, position_of
from .queries import FailureReason, QueryResult, StateQueryResult
from .reader_io import OpenQueryIterators, default_isolation, reader_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..records import TaskId
    from ..state.store_spec import StoreKind
    from ..task.standby_task import StandbyTask
    from ..worker.plan import AppPlan
    from ..worker.task_manager_io import TaskManager
    from .gate_io import QueryGate

    Read = Callable[[StoreKind, Any], Any]

GLOBAL = -1  # in place of a partition
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
ISOLATIONS = (READ_COMMITTED, READ_UNCOMMITTED)


class Holder(NamedTuple):
    """A task on this instance: active or standby. `position`: of its stores, from any thread; of the
    last commit with True. `lag`: records of the changelogs that the stores lack, None: unknown.
    `is_member`: whether the thread has had a recent response to its heartbeats."""

    id: TaskId
    stores: Mapping[str, Any]
    gate: QueryGate
    is_active: bool
    is_running: Callable[[], bool]
    position: Callable[[bool], Position]
    lag: Callable[[], int | None]
    is_member: Callable[[], bool]


class StoreInfo(NamedTuple):
    """A store of the topology. `sub_topology` None: of a global store."""

    name: str
    kind: StoreKind
    sub_topology: int | None


class _Asked(NamedTuple):
    """One query of a store."""

    info: StoreInfo
    read: Read
    bound: Position | None
    max_lag: int | None
    isolation: str | None
    in_bytes: bool


class LocalStores:
    """`plan` and `holders` are called for each query: None before the instance runs, and after its end."""

    def __init__(
        self,
        plan: Callable[[], AppPlan | None],
        holders: Callable[[], Iterable[Holder]],
        global_stores: Callable[[], tuple[Mapping[str, Any], QueryGate] | None],
        *,
        isolation: str,
    ) -> None:
        self._plan = plan
        self._holders = holders
        self._global_stores = global_stores
        self._isolation = isolation
        self.opened = OpenQueryIterators()
        self._infos: tuple[AppPlan | None, dict[str, StoreInfo]] = None, {}  # of the last plan

    # --- what there is ----------------------------------------------------------------------------------

    def plan(self) -> AppPlan:
        """Errors: StoreUnavailableError if the instance does not run."""
        plan = self._plan()
        if plan is None:
            raise StoreUnavailableError("the instance does not run: start it, or query another instance")
        return plan

    def infos(self) -> dict[str, StoreInfo]:
        """All stores of the topology by name. Errors: StoreUnavailableError."""
        plan = self.plan()
        if self._infos[0] is plan:
            return self._infos[1]
        known: list[tuple[int | None, Any]] = [
            (number, each.stores) for number, each in plan.sub_topologies.items()
        ]
        global_topology = plan.built.global_topology()
        if global_topology is not None:
            known.append((None, global_topology.global_stores))
        infos = {
            builder.name: StoreInfo(builder.name, builder.kind, number)
            for number, builders in known
            for builder in builders
        }
        self._infos = plan, infos
        return infos

    def info(self, name: str) -> StoreInfo:
        """Errors: UnknownStoreError, StoreUnavailableError."""
        infos = self.infos()
        found = infos.get(name)
        if found is None:
            raise UnknownStoreError(f"there is no store {name!r}{did_you_mean(name, infos)}")
        return found

    def partitions(self, info: StoreInfo) -> int:
        """The number of tasks of a store."""
        plan = self.plan()
        assert info.sub_topology is not None
        return max((plan.partitions.get(topic, 0) for topic in plan.sources[info.sub_topology]), default=0)

    def warn_of_leaks(self) -> None:
        """A ResourceWarning, an error in tests, if the instance ends while iterators are open."""
        if self.opened.count:
            text = f"{self.opened.count} iterators of queries were not closed: use a with statement"
            self.opened.count = 0
            warnings.warn(text, ResourceWarning, stacklevel=3)

    def typed_key(self, info: StoreInfo, key: bytes) -> Any:
        """A key of the store from its bytes, by the serde of the topology. Errors: those of the serde."""
        plan = self.plan()
        assert info.sub_topology is not None
        stores: Iterable[Any] = plan.sub_topologies[info.sub_topology].stores
        builder = next(each for each in stores if each.name == info.name)
        return resolve(builder.key_serde, "key", key=plan.settings.key_serde, value=None).loads(key)

    # --- reads ------------------------------------------------------------------------------------------

    def is_committed(self, store: Any, isolation: str | None) -> bool:
        """Whether to read what the last commit wrote. Errors: ValueError for an unknown isolation."""
        if isolation is None:
            return default_isolation(store, is_committed=self._isolation == READ_COMMITTED)
        if isolation not in ISOLATIONS:
            raise ValueError(f"isolation {isolation!r} is none of {', '.join(ISOLATIONS)}")
        return isolation == READ_COMMITTED

    def here(self, info: StoreInfo, *, stale: bool) -> dict[int, Holder]:
        """The task that serves each partition now: the active task if it runs, otherwise with `stale` any
        open one."""
        found: dict[int, Holder] = {}
        for holder in self._holders():
            if holder.id.sub_topology != info.sub_topology or info.name not in holder.stores:
                continue
            known = found.get(holder.id.partition)
            if known is None or (_answers(holder) and not _answers(known)):
                found[holder.id.partition] = holder
        return found if stale else {number: each for number, each in found.items() if each.is_active}

    def reader(
        self, info: StoreInfo, holder: Holder, isolation: str | None, *, in_bytes: bool = False
    ) -> Any:
        """Errors: WrongStoreKindError for a store that answers no queries."""
        return self._reader(holder.stores[info.name], holder.gate, isolation, in_bytes=in_bytes)

    def _reader(self, store: Any, gate: QueryGate, isolation: str | None, *, in_bytes: bool) -> Any:
        if not store.is_open:
            raise StoreUnavailableError(f"store {store.name!r} is not open yet: retry the query")
        committed = self.is_committed(store, isolation)
        place = store.name, committed, in_bytes
        reader = gate.readers.get(place)
        if reader is None:
            reader = reader_of(store, gate, self.opened, is_committed=committed, in_bytes=in_bytes)
            gate.readers[place] = reader
        return reader

    def global_reader(self, info: StoreInfo, *, in_bytes: bool = False) -> tuple[Any, QueryGate]:
        """Errors: StoreUnavailableError."""
        found = self._global_stores()
        if found is None or info.name not in found[0]:
            raise StoreUnavailableError(f"global store {info.name!r} is not open: retry the query")
        stores, gate = found
        return self._reader(stores[info.name], gate, READ_UNCOMMITTED, in_bytes=in_bytes), gate

    # --- IQv2 -------------------------------------------------------------------------------------------

    def query(
        self,
        name: str,
        query: Any,
        *,
        partitions: Iterable[int] | None = None,
        bound: Any = None,
        require_active: bool = False,
        isolation: str | None = None,
    ) -> StateQueryResult:
        """See AppInstance.query."""
        info = self.info(name)
        results = self.read(
            info,
            lambda kind, reader: run_query(kind, reader, query),
            partitions=partitions,
            bound=position_of(bound),
            max_lag=-1 if require_active else None,
            isolation=isolation,
        )
        if info.sub_topology is None:
            return StateQueryResult({}, results[GLOBAL])
        return StateQueryResult(results)

    def read(
        self,
        info: StoreInfo,
        read: Read,
        *,
        partitions: Iterable[int] | None,
        bound: Position | None,
        max_lag: int | None,
        isolation: str | None,
        in_bytes: bool = False,
    ) -> dict[int, QueryResult]:
        """The result of `read`, called with the kind and a reader of the store, by partition; GLOBAL for a
        global store. `max_lag`: the largest lag in records of a store whose task is not active and running;
        negative: such a store is not queried; None: any lag. Errors: StoreUnavailableError."""
        if info.sub_topology is None:
            return {GLOBAL: self._ask_global(info, read, in_bytes=in_bytes)}
        here = self.here(info, stale=True)
        asked = _Asked(info, read, bound, max_lag, isolation, in_bytes)
        wanted = sorted(here) if partitions is None else list(partitions)
        count = self.partitions(info)
        return {number: self._ask_partition(asked, number, here.get(number), count) for number in wanted}

    def read_keys(
        self,
        info: StoreInfo,
        reads: Mapping[int, Read],
        *,
        bound: Position | None,
        max_lag: int,
        isolation: str | None,
    ) -> dict[int, QueryResult]:
        """`read` in bytes, with a function for each partition."""
        here, count = self.here(info, stale=True), self.partitions(info)
        return {
            number: self._ask_partition(
                _Asked(info, read, bound, max_lag, isolation, True), number, here.get(number), count
            )
            for number, read in reads.items()
        }

    def _ask_partition(self, asked: _Asked, number: int, holder: Holder | None, count: int) -> QueryResult:
        name = asked.info.name
        if not 0 <= number < count:
            text = f"store {name!r} has the partitions 0 to {count - 1}, not {number}"
            return QueryResult(None, FailureReason.DOES_NOT_EXIST, text)
        if holder is None:
            text = f"partition {number} of store {name!r} is not on this instance"
            return QueryResult(None, FailureReason.NOT_PRESENT, text)
        try:
            with holder.gate:
                return self._ask(asked, holder)
        except (HeadraceError, *BAD_DATA) as error:
            return _failed(error)

    def _ask(self, asked: _Asked, holder: Holder) -> QueryResult:
        """Called within the gate."""
        if asked.max_lag is not None and holder.is_active and not holder.is_member():
            text = f"the thread of task {holder.id} has had no response from its group lately"
            return QueryResult(None, FailureReason.NOT_ACTIVE, text)
        if asked.max_lag is not None and not _answers(holder):
            lag = None if asked.max_lag < 0 else holder.lag()
            if lag is None or lag > asked.max_lag:
                behind = "" if lag is None else f", {lag} records behind"
                text = f"task {holder.id} is a standby, or is being restored{behind}"
                return QueryResult(None, FailureReason.NOT_ACTIVE, text)
        # Order: the position is read first, so that the store has processed at least these records
        position = holder.position(self.is_committed(holder.stores[asked.info.name], asked.isolation))
        missing = position.missing(asked.bound or {}, holder.id.partition)
        if missing:
            text = f"task {holder.id} is at {dict(position)}, before {missing}"
            return QueryResult(None, FailureReason.NOT_UP_TO_BOUND, text, position)
        reader = self.reader(asked.info, holder, asked.isolation, in_bytes=asked.in_bytes)
        return QueryResult(asked.read(asked.info.kind, reader), position=position)

    def _ask_global(self, info: StoreInfo, read: Read, *, in_bytes: bool) -> QueryResult:
        try:
            reader, gate = self.global_reader(info, in_bytes=in_bytes)
            with gate:
                return QueryResult(read(info.kind, reader))
        except (HeadraceError, *BAD_DATA) as error:
            return _failed(error)


def _answers(holder: Holder) -> bool:
    return holder.is_active and holder.is_running()


def _failed(error: BaseException) -> QueryResult:
    reason = FailureReason.STORE_EXCEPTION
    if isinstance(error, WrongStoreKindError):
        reason = FailureReason.UNKNOWN_QUERY_TYPE
    elif isinstance(error, StoreMigratedError):
        reason = FailureReason.NOT_PRESENT
    elif isinstance(error, StoreUnavailableError):
        reason = FailureReason.NOT_ACTIVE
    elif isinstance(error, BAD_DATA) and not isinstance(error, SerializationError):
        return QueryResult(None, reason, f"the key or value does not fit: {type(error).__name__}: {error}")
    return QueryResult(None, reason, str(error))


def _position_of(task: Any, durable: Mapping[Any, Any], *, is_committed: bool) -> Position:
    """Order: read before the values. An offset that is committed counts once the stores have its results."""
    found = {}
    for partition in task.partitions:
        queue = task.group.queues.get(partition)
        known = durable.get(partition)
        at_commit = -1 if known is None else known.offset - 1
        found[partition] = at_commit if is_committed or queue is None else max(queue.consumed, at_commit)
    return Position(found)


def _holder(
    task: Any, manager: TaskManager, is_member: Callable[[], bool], standby: StandbyTask | None = None
) -> Holder:
    durable = manager.commits.durable if standby is None else {}

    def lag() -> int | None:
        if standby is not None:
            return standby.lag
        return 0 if task.state is TaskState.RUNNING else None

    return Holder(
        *(task.id, task.stores, task.context.gate, standby is None),
        lambda: task.state is TaskState.RUNNING,
        lambda is_committed: _position_of(task, durable, is_committed=is_committed),
        lag,
        is_member,
    )


def holders_of(manager: TaskManager, is_member: Callable[[], bool]) -> list[Holder]:
    """The tasks and standbys of a stream thread. `is_member`: as of Holder. From any thread."""
    active = [_holder(task, manager, is_member) for task in list(manager.tasks.values())]
    standbys = manager.standbys.tasks.values()
    return active + [_holder(each.task, manager, is_member, each) for each in standbys]


def check_partition(number: int, count: int, name: str) -> None:
    """Errors: InvalidStorePartitionError."""
    if not 0 <= number < count:
        raise InvalidStorePartitionError(f"store {name!r} has the partitions 0 to {count - 1}, not {number}")
