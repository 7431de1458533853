"""The log of drivers' decisions: one record per name in a compacted topic, written by the newest driver
only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import TopicAlreadyExistsError
from ...protocol.model import TopicPartition
from ..admin.admin_types import EARLIEST, LATEST, NewTopic, Resource
from ..arrow.library import pa, pc
from ..config import AdminConfig, ConnectionConfig
from ..group.group_metadata import GroupMetadata
from ..sync.admin_io import Admin
from ..sync.producer_io import Producer
from .ranges import OffsetRange
from .reading_io import fetch_arrow
from .source_options import read_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..group.group_metadata import OffsetAndMetadata
    from ..sync.cluster_io import Cluster
    from .sink_options import WriteOptions
    from .source_options import ReadOptions

DRIVER_TIMEOUT_MS = 30_000
MAX_BYTES = 16 << 20  # Bound: of a record, which lists each task of a batch; compressed it is a tenth or less
# A starting driver reads the whole log: small segments, compacted soon.
_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": 1 << 20, "min.cleanable.dirty.ratio": "0.1"}
_SAFETY = ("transaction.state.log.replication.factor", "transaction.state.log.min.isr")
_CONNECTION = {**ConnectionConfig.keys(), **AdminConfig.keys()}


class Progress(NamedTuple):
    """The offsets that a group commits with a batch: the next ones to read."""

    group_id: str
    offsets: Mapping[TopicPartition, OffsetAndMetadata]


class DriverLog:
    """The record of one name; opening it fences the previous driver. Used by one thread.

    Errors of all calls: ApiTimeoutError, KafkaError; on opening CorruptMessageError, DataLossError too.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: WriteOptions | ReadOptions,
        topic: str,
        name: str,
        transactional_id: str,
    ) -> None:
        self._cluster, self._options = cluster, options
        self._place, self._key = TopicPartition(topic, 0), name.encode()
        self._create()
        self._producer: Producer[bytes, bytes] = Producer(
            cluster,
            transactional_id=transactional_id,
            transaction_timeout_ms=DRIVER_TIMEOUT_MS,
            compression_type="zstd",
            max_request_size=MAX_BYTES,
        )
        try:
            # Order: the previous driver cannot decide from here on, so the record read now is final.
            self._producer.init_transactions()
            self.found = self._read()
        except BaseException:
            self.close()
            raise

    def put(self, value: bytes | None, progress: Progress | None = None) -> None:
        """Write the record durably, atomically with `progress`; None deletes the record of the name.

        Errors: ProducerFencedError for a driver that is not the newest.
        """
        with self._producer.transaction() as transaction:
            if progress is not None:
                transaction.send_offsets(progress.offsets, GroupMetadata(progress.group_id))
            transaction.send(self._place.topic, value, key=self._key, partition=0)
        self.found = value

    @property
    def producer(self) -> tuple[int, int]:
        """Producer id and epoch of the next `put`. Each `put` increments the epoch, and so does the next
        driver that opens the log."""
        producer_id, epoch = self._producer._transaction_manager.identity  # noqa: SLF001
        return producer_id, epoch

    def close(self) -> None:
        """Close the producer; the record stays."""
        self._producer.close()

    def _create(self) -> None:
        """Create the topic if it does not exist, replicated like __transaction_state: no query should depend
        on a single node."""
        topic = self._place.topic
        with Admin(self._cluster) as admin:
            if not admin.describe_topics(topic).errors:
                return
            node = Resource("broker", str(admin.describe_cluster().nodes[0].node_id))
            of_node = admin.describe_configs(node)[node]
            replicas, in_sync = (of_node[name].value for name in _SAFETY)
            configs = {**_CONFIGS, "min.insync.replicas": in_sync}
            made = admin.create_topics(NewTopic(topic, 1, int(replicas or 1), configs))
        error = made.errors.get(topic)
        if error is not None and not isinstance(error, TopicAlreadyExistsError):
            raise error

    def _read(self) -> bytes | None:
        """Read up to the log end offset, not only the last stable offset: a decision may follow an open
        transaction of another driver, which ends soon, at the latest by its timeout."""
        with Admin(self._cluster) as admin:
            start = admin.list_offsets({self._place: EARLIEST})[self._place].offset
            end = admin.list_offsets({self._place: LATEST})[self._place].offset
        key: Any = pa.scalar(self._key, pa.binary())
        found: bytes | None = None
        wanted = committed_options(self._options, self._place)
        for batch in fetch_arrow(OffsetRange(*self._place, start, end), wanted, columns=["key", "value"]):
            rows = batch.filter(pc.equal(batch.column("key"), key))
            if rows.num_rows:
                found = rows.column("value")[-1].as_py()
        return found


def committed_options(options: WriteOptions | ReadOptions, tp: TopicPartition, **more: Any) -> ReadOptions:
    """Options for a driver to read the committed records of one partition, with the connection settings of
    `options`."""
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
