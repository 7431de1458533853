"""`stream`: consecutive Datasets of exact offsets, each committed when its step is done.

Without a sink the group's offsets are committed after the step: a step that fails, or whose driver dies, runs
again. With a sink they are committed in the transaction that decides on the rows written by the step:
atomically, and by the newest driver only.
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
    """Micro-batches of new records, at most one per `every` seconds, for `with` and `for`.

    A group without committed offsets starts at `start_offset` ("latest" included). `available_now` ends at
    the current end of the topics. `sink` names the sink of `Stream.write`. Other options as for `read`, and
    the limits `maxOffsetsPerTrigger`, `minOffsetsPerTrigger`, `maxTriggerDelay`.

    Errors: as `read`; ProducerFencedError in a driver that was replaced by another one with this sink.
    """
    if not group:
        raise ConfigError("a stream needs a group, which stores its offsets")
    if every <= 0:
        raise ConfigError(f"every must be a positive number of seconds, not {every!r}")
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
    """Iterate over it inside `with`: a step is done when the next Dataset is requested, or the block ends
    without an error. Used by one thread, except `stop`.

    `start` and `end` are the offsets of the current Dataset.
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
        self._is_open = False  # whether a step is in progress
        self._prepared: list[PreparedWrite] = []
        self._writes = 0
        # Order: the sink fences previous drivers, which then cannot change the offsets any more.
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
        """Write rows that become visible when the step is committed, atomically with its offsets; may be
        called several times. Arguments and errors as for `write`."""
        if self._sink is None or not self._is_open or self._sink_name is None:
            raise ConfigError("Stream.write needs a sink, and a step in progress")
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
        """End the iteration; thread-safe."""
        self._stopped.set()

    def close(self) -> None:
        """Close the stream; a step in progress is not committed."""
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
                error.add_note(f"the rows of the step could not be aborted: {failed!r}")

    # --- steps ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _admin(self) -> Iterator[Admin]:
        with shared_cluster(self._options.bootstrap, self._options.client) as cluster:
            yield Admin(cluster)

    def _begin(self) -> Checkpoint:
        """The committed offsets; the start of a new group is committed before its first read."""
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
        """The start offsets of all partitions whose topics are new to the group. Start options are ignored if
        the group has committed offsets everywhere."""
        there = self._planner.latest_offsets()
        known = {tp.topic for tp in committed.offsets}
        return there if all(tp.topic in known for tp in there) else self._planner.initial_offsets()

    def _next_plan(self) -> Plan | None:
        """The plan of the next Dataset; None if there are no new records, or it is not time yet."""
        # With a target there are no further records to wait for, and no reason to leave a rest.
        every_s = self._every if self._target is None else 0.0
        limits = self._options.limits
        if self._target is not None:
            limits = limits._replace(min_offsets=None)
        while not self._stopped.wait(max(self._began_s + every_s - time.monotonic(), 0)):
            self._began_s = time.monotonic()
            ids = self._topic_ids(self._at)
            at = self._at.without(self._renewed(ids))
            ends = clipped(self._planner.latest_offsets(at.offsets, limits), self._target)
            # Losses are reported by the plan: `new_offsets` does not count them.
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
                f"topics were created again since group {self._group!r} read them: {', '.join(found)}. To"
                " read"
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
        gone = found.errors  # the planner decides whether missing topics are an error
        return {name: found[name].topic_id.hex() for name in found if name not in gone}

    def _finish(self) -> None:
        """Commit the step: its rows become visible, and it does not run again."""
        if self._is_open:
            self._is_open = False
            reached = self._at._replace(offsets=dict(self.end))  # without deleted partitions
            self._commit(reached)
            self._at = reached

    def _are_deleted(self, admin: Admin, errors: Mapping[TopicPartition, BaseException]) -> bool:
        """Whether all failed partitions belong to topics that were deleted after planning."""
        is_unknown = all(isinstance(error, UnknownTopicOrPartitionError) for error in errors.values())
        names = {tp.topic for tp in errors}
        return is_unknown and (not names or admin.describe_topics(*names).errors.keys() == names)

    def _commit(self, reached: Checkpoint) -> None:
        notes = reached.notes()
        if self._sink is not None:
            # From here on the batch may be decided: only the sink may end these.
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
