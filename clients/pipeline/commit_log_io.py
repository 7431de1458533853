"""The topic in which drivers write what they have decided, and whether the rows of a task are to be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import ApiTimeoutError, TopicAlreadyExistsError
from ...protocol.model import TopicPartition
from ..admin.admin_types import EARLIEST, LATEST, NewTopic, Resource
from ..arrow.library import pa, pc
from ..config import AdminConfig, ConnectionConfig
from ..sync.admin_io import Admin
from .commits import COMMITS_TOPIC, decoded
from .planner_io import Planner
from .ranges import OffsetRange
from .reading_io import fetch_arrow
from .source_options import read_options

if TYPE_CHECKING:
    from ..sync.cluster_io import Cluster
    from .commits import Decision
    from .sink_options import WriteOptions
    from .source_options import ReadOptions
    from .written import PreparedWrite

DRIVER_TIMEOUT_MS = 30_000
_PLACE = TopicPartition(COMMITS_TOPIC, 0)
# All of it is read whenever a driver starts: small segments, compacted soon.
_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": 1 << 20, "min.cleanable.dirty.ratio": "0.1"}
_SAFETY = ("transaction.state.log.replication.factor", "transaction.state.log.min.isr")
_CONNECTION = {**ConnectionConfig.keys(), **AdminConfig.keys()}


class CommitLog:
    """Reads of one driver. Errors of all calls: ApiTimeoutError, KafkaError."""

    def __init__(self, cluster: Cluster, options: WriteOptions) -> None:
        self._cluster, self._options = cluster, options

    def create(self) -> None:
        """Make the topic if there is none, as safe as the log of transactions: with as many replicas."""
        with Admin(self._cluster) as admin:
            if not admin.describe_topics(COMMITS_TOPIC).errors:
                return
            node = Resource("broker", str(admin.describe_cluster().nodes[0].node_id))
            of_node = admin.describe_configs(node)[node]
            replicas, in_sync = (of_node[name].value for name in _SAFETY)
            configs = {**_CONFIGS, "min.insync.replicas": in_sync}
            new = NewTopic(COMMITS_TOPIC, 1, int(replicas or 1), configs)
            made = admin.create_topics(new)
        error = made.errors.get(COMMITS_TOPIC)
        if error is not None and not isinstance(error, TopicAlreadyExistsError):
            raise error

    def last(self, query: str) -> Decision | None:
        """What is decided of a query. The log is read up to its end, not only to the last stable offset: a
        decision may lie behind the open transaction of another query's driver, which ends soon, if only by
        its timeout. Errors: CorruptMessageError, DataLossError."""
        with Admin(self._cluster) as admin:
            start = admin.list_offsets({_PLACE: EARLIEST})[_PLACE].offset
            end = admin.list_offsets({_PLACE: LATEST})[_PLACE].offset
        key, found = pa.scalar(query.encode(), pa.binary()), None
        for batch in fetch_arrow(
            OffsetRange(*_PLACE, start, end), self._reading(_PLACE), columns=["key", "value"]
        ):
            rows = batch.filter(pc.equal(batch.column("key"), key))
            if rows.num_rows:
                found = decoded(query, rows.column("value")[-1].as_py())
        return found

    def is_visible(self, write: PreparedWrite) -> bool:
        """Whether readers of committed records see the first row of a write: its transaction is committed.

        Errors: ApiTimeoutError if that cannot be told yet, because of a transaction before it that is open.
        """
        tp, written = write.report.partitions[0]
        reading = self._reading(tp, failOnDataLoss=False)  # what is deleted is not seen
        first = written.first
        if Planner(reading).latest_offsets().get(tp, 0) <= first:
            raise ApiTimeoutError(
                f"{tp} has an open transaction before offset {first}: whether task {write.task} is committed"
                " can be told when that has ended"
            )
        cut = OffsetRange(*tp, first, first + 1)
        return any(batch.num_rows for batch in fetch_arrow(cut, reading, columns=["offset"]))

    def _reading(self, tp: TopicPartition, **more: Any) -> ReadOptions:
        options = self._options
        connection = {f"headrace.{name}": value for name, value in options.client if name in _CONNECTION}
        return read_options(
            {
                **connection,
                "bootstrap": options.bootstrap,
                "assign": {tp.topic: [tp.partition]},
                "headrace.isolation.level": "read_committed",
                "kafkaConsumer.pollTimeoutMs": 4 * DRIVER_TIMEOUT_MS,
                **more,
            }
        )
