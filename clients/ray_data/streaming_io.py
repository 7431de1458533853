"""`stream`: one Dataset after the other, of exact offsets, each committed when its step is done.

Without a sink the group's offsets are committed after the step: a step that fails, or a driver that dies in
it, does it again. With a sink they are committed in the transaction that decides about what the step wrote:
both or none, and by the newest driver alone.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError, DataLossError, HeadraceError, UnknownTopicOrPartitionError
from ..pipeline.driver_log_io import Progress
from ..pipeline.filters import Filters
from ..pipeline.planner_io import Planner
from ..pipeline.pool_io import shared_cluster
from ..pipeline.sink_io import Sink
from ..pipeline.source_options import read_options
from ..pipeline.splitting import new_offsets
from ..sync.admin_io import Admin
from .arguments import OF_READ_TASKS, OF_WRITE_TASKS, core_options, split, start_side
from .checkpoints import Checkpoint, clipped
from .planning_io import with_bootstrap, with_sides
from .reading_io import dataset_of
from .writing_io import TopicDatasink, checked_options, next_batch, prepare

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from ray.data import Dataset

    from ...protocol.model import TopicPartition
    from ..pipeline.offsets import Offsets
    from ..pipeline.ranges import Plan
    from ..pipeline.source_options import ReadOptions
    from ..pipeline.written import PreparedWrite, WriteReport


def stream(
    topics: str | list[str] | None,
    group: str,
    *,
    every: float = 1.0,
    bootstrap_servers: str | list[str] | None = None,
    start_offset: Any = "earliest",
    sink: str | None = None,
    columns: Iterable[str] | None = None,
    available_now: bool = False,
    **options: Any,
) -> Stream:
    """Micro-batches of what is new in topics, at most one in `every` seconds, for `with` and `for`.

    A group that has committed nothing begins at `start_offset` ("latest" too). `available_now` ends with
    what is there now. `sink` names the sink of `Stream.write`. Other options as of `read`, and the limits
    `maxOffsetsPerTrigger`, `minOffsetsPerTrigger`, `maxTriggerDelay`.

    Errors: as `read`; ProducerFencedError in a driver after which another one began with this sink.
    """
    if not group:
        raise ConfigError("a stream has a group, which remembers how far it is")
    if every <= 0:
        raise ConfigError(f"every takes seconds, more than none, not {every!r}")
    of_tasks, given = split(options, OF_READ_TASKS)
    checked = with_bootstrap(core_options(topics, bootstrap_servers, given))
    if start_offset == "latest":
        checked.setdefault("startingOffsets", "latest")
    else:
        checked = with_sides(checked, start_side(start_offset))
    found = Stream(read_options(checked, stream=True), group, sink, every, available_now=available_now)
    found.columns, found.of_tasks = columns, of_tasks
    return found


class Stream:
    """Iterate over it inside `with`: a step is done when the next Dataset is asked for, or the block is left
    without an error. Belongs to one thread, but for `stop`.

    `start` and `end` are the offsets of the Dataset that is in work.
    """

    def __init__(
        self, options: ReadOptions, group: str, sink: str | None, every: float, *, available_now: bool
    ) -> None:
        self._options, self._group, self._sink_name, self._every = options, group, sink, every
        self.columns: Iterable[str] | None = None
        self.of_tasks: dict[str, Any] = {}
        self.start: Offsets = {}
        self.end: Offsets = {}
        self._planner = Planner(options)
        self._stopped = threading.Event()
        self._began_s = time.monotonic() - every
        self._is_open = False  # whether a step is in work
        self._prepared: list[PreparedWrite] = []
        self._writes = 0
        # Order: the sink fences earlier drivers off, and then they do not change the offsets any more.
        self._sink = None if sink is None else Sink(checked_options(None, options.bootstrap, {}), sink)
        try:
            if self._sink is not None:
                self._sink.abort_leftovers()
            self._at = self._begin()
            self._target = self._planner.latest_offsets() if available_now else None
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Dataset:
        self._finish()
        plan = self._next_plan()
        if plan is None:
            raise StopIteration
        self.start, self.end = plan.starts, plan.ends
        self._is_open = True
        return dataset_of(plan, self._options, self.columns, Filters(), self.of_tasks, locality=True)

    def write(
        self,
        dataset: Dataset,
        topic: str | None = None,
        *,
        rows_per_task: int | None = None,
        **options: Any,
    ) -> WriteReport:
        """Write rows that are seen when the step is committed, with its offsets; several times if wanted.
        Arguments and errors as of `write`."""
        if self._sink is None or not self._is_open or self._sink_name is None:
            raise ConfigError("a stream writes inside of its steps, and needs a sink")
        of_tasks, given = split(options, OF_WRITE_TASKS)
        checked = checked_options(topic, self._options.bootstrap, given)
        name = f"{self._writes}-"
        self._writes += 1
        datasink = TopicDatasink(
            checked,
            sink=self._sink_name,
            gate=self._sink.open_gate(),
            name=name,
            rows_per_task=rows_per_task,
        )
        prepare(dataset, datasink, self._sink, of_tasks, keep=self._prepared)
        self._prepared += datasink.prepared
        return datasink.report

    def stop(self) -> None:
        """There is no further Dataset; from any thread."""
        self._stopped.set()

    def close(self) -> None:
        """The step in work, if there is one, is not committed."""
        self._stopped.set()
        self._is_open = False
        if self._sink is not None:
            try:
                if self._prepared:
                    self._sink.abort(self._prepared)
            finally:
                self._prepared = []
                self._sink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._finish()
        finally:
            try:
                self.close()
            except HeadraceError as failed:
                if error is None:
                    raise
                error.add_note(f"what the step wrote could not be undone: {failed!r}")

    # --- inside -----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _admin(self) -> Iterator[Admin]:
        with shared_cluster(self._options.bootstrap, self._options.client) as cluster:
            yield Admin(cluster)

    def _begin(self) -> Checkpoint:
        """What is committed; the start of a new group is, before anything is read from there."""
        with (
            shared_cluster(self._options.bootstrap, self._options.client) as cluster,
            Admin(cluster) as admin,
        ):
            committed = Checkpoint.of(admin.list_group_offsets(self._group, require_stable=True))
        found = Checkpoint(committed.beginning(self._initial(committed)), committed.topic_ids)
        if found.offsets.keys() - committed.offsets.keys():
            found.topic_ids.update(
                {name: known for name, known in self._topic_ids(found).items() if name not in found.topic_ids}
            )
            self._commit(found)
        return found

    def _initial(self, committed: Checkpoint) -> Offsets:
        """All partitions, with where those begin whose topics are new to the group. What the options say of
        the start need not hold any more when the group has a place everywhere."""
        there = self._planner.latest_offsets()
        known = {tp.topic for tp in committed.offsets}
        return there if all(tp.topic in known for tp in there) else self._planner.initial_offsets()

    def _next_plan(self) -> Plan | None:
        """The next rows, when there are some and it is time."""
        # With a target there is nothing to wait for, and no reason to leave a rest.
        every_s = self._every if self._target is None else 0.0
        limits = self._options.limits
        if self._target is not None:
            limits = limits._replace(min_offsets=None)
        while not self._stopped.wait(max(self._began_s + every_s - time.monotonic(), 0)):
            self._began_s = time.monotonic()
            ids = self._topic_ids(self._at)
            at = self._at.without(self._renewed(ids))
            ends = clipped(self._planner.latest_offsets(at.offsets, limits), self._target)
            # What is gone is for the plan to tell: `new_offsets` counts it for nothing.
            if new_offsets(at.offsets, ends) or any(
                ends.get(tp, -1) < place for tp, place in at.offsets.items()
            ):
                plan = self._planner.between(at.offsets, ends)
                read = {each.topic: each.topic_id.hex() for each in plan.ranges}
                if all(ids.get(name, found) == found for name, found in read.items()):
                    self._at = at._replace(topic_ids={**at.topic_ids, **ids, **read})
                    return plan
            elif self._target is not None:
                return None
        return None

    def _renewed(self, ids: dict[str, str]) -> list[str]:
        found = self._at.renewed(ids)
        if found and self._options.fail_on_data_loss:
            raise DataLossError(
                f"created again since group {self._group!r} has read them: {', '.join(found)}. To read"
                " them from their first records on, set failOnDataLoss to false"
            )
        return found

    def _topic_ids(self, at: Checkpoint) -> dict[str, str]:
        names = sorted({*(tp.topic for tp in at.offsets), *self._options.subscription.topics})
        with (
            shared_cluster(self._options.bootstrap, self._options.client) as cluster,
            Admin(cluster) as admin,
        ):
            found = admin.describe_topics(*names)
        gone = found.errors  # whether that may be is for the planner to say
        return {name: found[name].topic_id.hex() for name in found if name not in gone}

    def _finish(self) -> None:
        """The step is done: what it wrote is seen, and it is not done again."""
        if self._is_open:
            self._is_open = False
            reached = self._at._replace(offsets=dict(self.end))  # without partitions that are no more
            self._commit(reached)
            self._at = reached

    def _are_deleted(self, admin: Admin, errors: Mapping[TopicPartition, BaseException]) -> bool:
        """Whether all that cannot be committed is of topics that were deleted since they were planned."""
        is_unknown = all(isinstance(error, UnknownTopicOrPartitionError) for error in errors.values())
        names = {tp.topic for tp in errors}
        return is_unknown and (not names or admin.describe_topics(*names).errors.keys() == names)

    def _commit(self, reached: Checkpoint) -> None:
        notes = reached.notes()
        if self._sink is not None:
            # From here on it may be decided: nobody but the sink ends these.
            writes, self._prepared, self._writes = self._prepared, [], 0
            self._sink.commit(next_batch(self._sink), writes, progress=Progress(self._group, notes))
            return
        with (
            shared_cluster(self._options.bootstrap, self._options.client) as cluster,
            Admin(cluster) as admin,
        ):
            found = admin.alter_group_offsets(self._group, notes, create=True)
            if self._options.fail_on_data_loss or not self._are_deleted(admin, found.errors):
                found.raise_for_errors()
