"""The values of a node's metrics, read in pieces: between two of them the event loop serves requests. Pure.

Bound: partitions and topics with series of their own; the others are in the sums only. The first ones of the
table keep theirs, so that series do not come and go.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..runtime.telemetry import node_table as table
from .replica.image_lookup import registration_of
from .replica.partition import PartitionState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..protocol.metadata.image import MetadataImage
    from ..runtime.purgatory import Purgatory
    from ..runtime.telemetry.samples import Samples
    from .configs.live_config import LiveConfig
    from .counters import NodeCounters
    from .embedded.coordinator_host import NodeCoordinatorHost
    from .log.log_dirs import LogDirs
    from .replica.log_cleaner import LogCleaner
    from .replica.partition import Partition
    from .replica.replica_manager import ReplicaManager

PIECE = 200  # partitions or topics per turn of the loop
LATE_MS = 5 * 60_000  # beyond transaction.max.timeout.ms. Source: Kafka ProducerStateManager.java


class Limits(NamedTuple):
    """How many partitions and topics have series of their own."""

    partitions: int = 0
    topics: int = 0


NO_SERIES = Limits()


class Clock(NamedTuple):
    """Both times, and the age from which an open transaction is late."""

    now_ms: int
    wall_ms: int = 0
    late_after_ms: int = 0


class PartitionSums:
    """Gauges over all partitions of a node."""

    def __init__(self) -> None:
        self.partitions = self.leaders = self.offline = 0
        self.under_replicated = self.under_min_isr = self.at_min_isr = self.lost_to_min_isr = 0
        self.reassigning = 0
        self.producers = self.open_transactions = self.late_transactions = 0
        self.oldest_transaction_ms = 0
        self.dirs: dict[str, list[int]] = {}  # bytes and logs
        self.topics: dict[str, int] = {}  # bytes

    def add(self, partition: Partition, image: MetadataImage, clock: Clock) -> None:
        self.partitions += 1
        self.offline += partition.state is PartitionState.OFFLINE
        if partition.is_leader:
            self.leaders += 1
            in_sync = len(partition.isr)
            self.under_replicated += in_sync < len(partition.replicas)
            self.under_min_isr += in_sync < partition.min_isr
            self.at_min_isr += in_sync == partition.min_isr
            self.lost_to_min_isr += partition.min_isr == in_sync < len(partition.replicas)
            registration = registration_of(image, *partition.key)
            if registration is not None:
                self.reassigning += bool(registration.adding_replicas or registration.removing_replicas)
        log = partition.log
        if log is None:
            return
        states = log.producers.states
        self.producers += len(states)
        if (oldest := states.oldest_transaction) is not None:
            self.open_transactions += 1
            age_ms = clock.wall_ms - oldest.timestamp_ms
            if partition.is_leader and clock.wall_ms:
                self.oldest_transaction_ms = max(self.oldest_transaction_ms, age_ms)
                self.late_transactions += age_ms > clock.late_after_ms
        size = log.size_bytes
        here = self.dirs.setdefault(log.folder.log_dir, [0, 0])
        here[0] += size
        here[1] += 1
        topic = partition.topic_partition.topic
        self.topics[topic] = self.topics.get(topic, 0) + size

    def write(self, samples: Samples) -> None:
        samples.set(table.PARTITION_COUNT, self.partitions)
        samples.set(table.LEADER_COUNT, self.leaders)
        samples.set(table.OFFLINE_REPLICAS, self.offline)
        samples.set(table.UNDER_REPLICATED, self.under_replicated)
        samples.set(table.UNDER_MIN_ISR, self.under_min_isr)
        samples.set(table.AT_MIN_ISR, self.at_min_isr)
        samples.set(table.LOST_TO_MIN_ISR, self.lost_to_min_isr)
        samples.set(table.REASSIGNING, self.reassigning)
        samples.set(table.PRODUCER_IDS, self.producers)
        samples.set(table.OPEN_TRANSACTIONS, self.open_transactions)
        samples.set(table.PARTITIONS_WITH_LATE_TRANSACTIONS, self.late_transactions)
        samples.set(table.OLDEST_TRANSACTION_AGE, self.oldest_transaction_ms / 1000)


def partition_pieces(
    samples: Samples, replicas: ReplicaManager, limits: Limits, clock: Clock
) -> Iterator[None]:
    """Sums over all partitions, and the series of the first of them."""
    image = replicas.table.image
    partitions = list(replicas.table.partitions.values())
    sums = PartitionSums()
    for first in range(0, len(partitions), PIECE):
        for partition in partitions[first : first + PIECE]:
            sums.add(partition, image, clock)
        if first < limits.partitions:
            _write_logs(samples, partitions[first : min(first + PIECE, limits.partitions)])
        yield
    sums.write(samples)
    samples.set(table.PARTITIONS_OMITTED, max(len(partitions) - limits.partitions, 0))
    for path, (size, count) in sums.dirs.items():
        samples.set(table.DIR_BYTES, size, path)
        samples.set(table.DIR_PARTITIONS, count, path)
    for topic, size in islice(sums.topics.items(), limits.topics):
        samples.set(table.TOPIC_BYTES, size, topic)
    yield
    yield from _fetcher_pieces(samples, replicas, limits)


def _write_logs(samples: Samples, partitions: list[Partition]) -> None:
    sizes, segments = samples.series(table.LOG_SIZE), samples.series(table.LOG_SEGMENTS)
    starts, ends = samples.series(table.LOG_START), samples.series(table.LOG_END)
    for partition in partitions:
        log = partition.log
        if log is None:
            continue
        topic, number = partition.topic_partition
        labels = (topic, str(number))
        sizes[labels], segments[labels] = log.size_bytes, len(log.segments)
        starts[labels], ends[labels] = log.log_start_offset, log.log_end_offset
        if partition.is_leader:
            samples.set(table.LAST_STABLE_LAG, log.high_watermark - log.last_stable_offset, *labels)


def _fetcher_pieces(samples: Samples, replicas: ReplicaManager, limits: Limits) -> Iterator[None]:
    """Lags of followed partitions; the list is made at once, because fetchers change between pieces."""
    followed = list(replicas.fetchers.followed)
    most = 0
    for first in range(0, len(followed), PIECE):
        lags = samples.series(table.FETCHER_LAG) if first < limits.partitions else {}
        for each in followed[first : first + PIECE]:
            topic, number = each.partition.topic_partition
            lag = lags[topic, str(number)] = each.lag
            most = max(most, lag)
        yield
    samples.set(table.MAX_LAG, most)


def counter_pieces(
    samples: Samples, counters: NodeCounters, image: MetadataImage, limits: Limits
) -> Iterator[None]:
    """Totals of the node and of topics. Totals of topics that do not exist any more are dropped."""
    samples.set(table.MESSAGES_IN, counters.produced_records)
    samples.set(table.BYTES_IN, counters.produced_bytes)
    samples.set(table.BATCHES_IN, counters.produced_batches)
    samples.set(table.BYTES_OUT, counters.fetched_bytes)
    samples.set(table.BYTES_REJECTED, counters.rejected_bytes)
    samples.set(table.FAILED_PRODUCE, counters.failed_produce_entries)
    samples.set(table.FAILED_FETCH, counters.failed_fetch_entries)
    samples.set(table.REPLICATION_BYTES_IN, counters.replicated_in_bytes)
    samples.set(table.REPLICATION_BYTES_OUT, counters.replicated_out_bytes)
    samples.set(table.ISR_SHRINKS, counters.isr_shrinks)
    samples.set(table.ISR_EXPANDS, counters.isr_expands)
    samples.set(table.VERIFICATION_FAILURES, counters.failed_verifications)
    samples.observe(table.LOG_FLUSH_TIME, counters.flush_times)
    counters.keep(image.topics)
    topics = list(counters.topics.items())
    samples.set(table.TOPICS_OMITTED, max(len(topics) - limits.topics, 0))
    topics = topics[: limits.topics]
    for first in range(0, len(topics), PIECE):
        for name, traffic in topics[first : first + PIECE]:
            samples.set(table.MESSAGES_IN, traffic.produced_records, name)
            samples.set(table.BYTES_IN, traffic.produced_bytes, name)
            samples.set(table.BYTES_OUT, traffic.fetched_bytes, name)
            samples.set(table.BYTES_REJECTED, traffic.rejected_bytes, name)
            samples.set(table.FAILED_PRODUCE, traffic.failed_produce_entries, name)
            samples.set(table.FAILED_FETCH, traffic.failed_fetch_entries, name)
        yield


class NodeMetrics:
    """Reads the metrics of a node core. The parts are those of the core."""

    def __init__(
        self,
        config: LiveConfig,
        replicas: ReplicaManager,
        cleaner: LogCleaner,
        dirs: LogDirs,
        purgatories: tuple[Purgatory, Purgatory],
        coordinators: NodeCoordinatorHost,
    ) -> None:
        """`purgatories`: of Produce, and of all other requests."""
        self.replicas, self.cleaner, self.dirs = replicas, cleaner, dirs
        self.produces, self.fetches = purgatories
        self._config, self._coordinators = config, coordinators

    def pieces(
        self, samples: Samples, now_ms: int, wall_ms: int = 0, limits: Limits = NO_SERIES
    ) -> Iterator[None]:
        """All metrics of the core; without `wall_ms` the ages of transactions are not known."""
        late_after_ms = self._config.now.transaction_max_timeout_ms + LATE_MS
        clock = Clock(now_ms, wall_ms, late_after_ms)
        self._write_gauges(samples, now_ms)
        yield from counter_pieces(samples, self.replicas.counters, self.replicas.table.image, limits)
        yield from partition_pieces(samples, self.replicas, limits, clock)
        yield from self._coordinators.metric_pieces(samples)

    def _write_gauges(self, samples: Samples, now_ms: int) -> None:
        samples.set(table.OFFLINE_DIRS, len(self.dirs.offline))
        for log_dir in self.dirs:
            samples.set(table.DIR_OFFLINE, int(not log_dir.is_online), log_dir.path)
            samples.set(table.DIR_REFUSES, int(log_dir.room.full is not None), log_dir.path)
        samples.set(table.PURGATORY_SIZE, len(self.produces), "Produce")
        samples.set(table.PURGATORY_SIZE, len(self.fetches), "Fetch")
        samples.set(table.METADATA_OFFSET, self.replicas.table.image.offset)
        samples.set(table.ISR_CHANGES_UNDER_WAY, len(self.replicas.isr_manager.isr_changes))
        facts = self.cleaner.facts(now_ms)
        samples.set(table.MAX_DIRTY, facts.max_dirty_percent)
        samples.set(table.CLEANER_IDLE, facts.idle_ms)
        samples.series(table.UNCLEANABLE)
        for path, count in facts.uncleanable.items():
            samples.set(table.UNCLEANABLE, count, path)
        samples.set(table.CLEANER_RECOPY, facts.recopy_percent)
        samples.set(table.CLEANER_BUFFER, facts.buffer_percent)
        samples.set(table.CLEANER_TIME, facts.longest_ms // 1000)
