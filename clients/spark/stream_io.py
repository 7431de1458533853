"""`stream`: micro-batches of topics on a Spark without Python data sources, driven by a checkpointed clock.

Spark's `rate-micro-batch` source counts batches, and its checkpoint has the completed ones; the offsets of a
batch are planned here, and stored in a topic before it runs. A batch that Spark runs again reads the same
rows.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from ..pipeline.driver_log_io import DriverLog
from ..pipeline.offsets import Position, offsets_to_json
from ..pipeline.planner_io import Planner
from ..pipeline.plans import PLANS_TOPIC, Plans, decoded, encoded, within
from ..pipeline.pool_io import shared_cluster
from ..pipeline.source_options import read_options
from .group_progress_io import GroupProgress
from .reading_io import frame
from .task_errors import readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..pipeline.ranges import Plan
    from ..pipeline.source_options import ReadOptions

log = logging.getLogger("headrace.client.spark")

# An empty batch costs Spark files and tenths of a second of work, so a batch waits this long for rows, with
# checks at this interval. Stopping Spark's query directly may take as long.
IDLE_S = 2.0
LOOK_S = 0.1


def stream(
    spark: Any,
    fn: Callable[[Any, int], object],
    *,
    checkpoint: str,
    name: str | None = None,
    available_now: bool = False,
    processing_time: str = "0 seconds",
    **options: Any,
) -> Stream:
    """Call `fn(df, batch_id)` for each micro-batch, as `foreachBatch` does: again with the same rows and the
    same number after a failure. With `write_batch` in it the whole is exactly once.

    `checkpoint` is a folder of Spark's; a stream with an existing one continues. `available_now` ends at the
    current end of the topics. `processing_time` is the minimum interval of batches. Options are those of
    docs/PIPELINE.md. Errors, at once: ConfigError, UnknownTopicOrPartitionError, NoClusterError,
    ApiTimeoutError; later ones are raised by `awaitTermination`.
    """
    started = Stream(read_options(options, stream=True), fn, available_now=available_now)
    return started.start(spark, checkpoint, name, processing_time)


class Stream:
    """A running stream; names as in Spark's StreamingQuery."""

    def __init__(
        self, options: ReadOptions, fn: Callable[[Any, int], object], *, available_now: bool = False
    ) -> None:
        self._options, self._fn = options, fn
        self._planner, self._group = Planner(options), GroupProgress(options)
        latest = self._planner.latest_offsets()
        self._most = latest if available_now else None
        limits = options.limits
        self._limits = limits._replace(min_offsets=None) if available_now else limits
        self._plans = Plans.beginning(Position())
        self._exit = contextlib.ExitStack()
        self._ready = threading.Event()
        self._ending = threading.Event()
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._progress: dict[str, Any] | None = None
        self._query: Any = None
        self._log: DriverLog | None = None

    def start(self, spark: Any, checkpoint: str, name: str | None, processing_time: str) -> Stream:
        """Called by `stream`."""
        clock = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        writer = clock.writeStream.foreachBatch(self._tick).option("checkpointLocation", checkpoint)
        if name is not None:
            writer = writer.queryName(name)
        self._query = writer.trigger(processingTime=processing_time).start()
        try:
            self._open()
        except BaseException:
            self._ending.set()
            self._ready.set()
            self._query.stop()
            self._exit.close()
            raise
        self._ready.set()
        threading.Thread(target=self._watch, name="headrace-stream", daemon=True).start()
        return self

    @property
    def id(self) -> str:
        """The id of the checkpoint."""
        return str(self._query.id)

    @property
    def runId(self) -> str:
        """The id of this run."""
        return str(self._query.runId)

    @property
    def name(self) -> str | None:
        """The given name."""
        found: str | None = self._query.name
        return found

    @property
    def isActive(self) -> bool:
        """Whether the stream is running."""
        return bool(self._query.isActive)

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        """The last batch with rows: its offsets in Spark's form, and its lag."""
        return self._progress

    def exception(self) -> Exception | None:
        """The error that ended the stream, if any."""
        return self._error

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Wait for the end of the stream, at most `timeout` seconds; True if it has ended.

        Errors: those of `fn`, of a headrace task in it, or of planning.
        """
        has_ended = self._ended.wait(timeout)
        if self._error is not None:
            raise self._error
        return has_ended

    def stop(self) -> None:
        """Stop at once: a running batch is interrupted, and runs again at the next start."""
        self._ending.set()
        self._query.stop()
        self._ended.wait()

    # --- batches --------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Open the plans of the checkpoint's id; a new id starts a new stream."""
        options = self._options
        cluster = self._exit.enter_context(shared_cluster(options.bootstrap, options.client))
        self._log = DriverLog(cluster, options, PLANS_TOPIC, self.id, f"headrace-stream/{self.id}")
        self._exit.callback(self._log.close)
        if self._log.found is not None:
            self._plans = decoded(self._log.found)
        else:
            self._store(Plans.beginning(self._planner.initial_offsets()))

    def _watch(self) -> None:
        """Wait for the end of Spark's query, then release everything."""
        while not self._ending.wait(1.0) and self._query.isActive:
            pass
        with contextlib.suppress(Exception):  # the error of the query, if any, is known already
            self._query.stop()
        self._exit.close()
        self._ended.set()

    def _tick(self, clock: Any, batch: int) -> None:
        """One batch of the clock: one micro-batch, or an empty one."""
        self._ready.wait()
        if self._ending.is_set():
            return
        try:
            with readable():
                self._run(clock.sparkSession, batch)
        except Exception as error:
            if not self._ending.is_set():  # otherwise it is the effect of `stop` on the job
                self._error = error
                self._ending.set()
            raise

    def _run(self, spark: Any, batch: int) -> None:
        planned = self._plans.of(batch)
        if planned is None:
            ends = self._new_ends()
            if ends is None:
                return
            plan = self._planner.between(self._plans.ends, ends)
            self._store(self._plans.and_then(batch, plan))
        else:
            log.info("running batch %d of stream %s again", batch, self.id)
            plan = self._planner.between(planned.starts, planned.ends)
        if plan.ranges:
            began_s = time.monotonic()
            self._fn(frame(spark, plan, self._options), batch)
            self._report(batch, plan, time.monotonic() - began_s)

    def _new_ends(self) -> Position | None:
        """The end of the next batch; None if there are no new records for a while, or the stream has
        ended."""
        until_s = time.monotonic() + IDLE_S
        starts = self._plans.ends
        while True:
            ends = within(self._planner.latest_offsets(starts, self._limits), self._most)
            if ends != starts or starts.renewed(ends.topic_ids):
                return ends
            if self._most is not None:
                self._ending.set()
                return None
            if time.monotonic() >= until_s or self._ending.wait(LOOK_S):
                return None

    def _store(self, plans: Plans) -> None:
        assert self._log is not None, "opened"
        self._log.put(encoded(plans))
        self._plans = plans

    def _report(self, batch: int, plan: Plan, took_s: float) -> None:
        latest = self._planner.last_ends or plan.ends
        behind = [max(latest.get(tp, end) - end, 0) for tp, end in plan.ends.items()]
        self._progress = {
            "id": self.id,
            "runId": self.runId,
            "name": self.name,
            "batchId": batch,
            "batchDuration": round(took_s * 1000),
            "numInputOffsets": sum(each.size for each in plan.ranges),
            "sources": [
                {
                    "description": "headrace",
                    "startOffset": offsets_to_json(plan.starts),
                    "endOffset": offsets_to_json(plan.ends),
                    "latestOffset": offsets_to_json(latest),
                    "metrics": {
                        "minOffsetsBehindLatest": min(behind, default=0),
                        "maxOffsetsBehindLatest": max(behind, default=0),
                        "totalOffsetsBehindLatest": sum(behind),
                    },
                }
            ],
        }
        self._group.publish(plan.ends)
