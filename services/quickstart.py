"""The quickstart: sends lines of text through a cluster of three storage nodes on Ray, reads them back,
compares.

It starts everything that it needs, stops all of it, and reports success only if count and checksum of every
partition are equal on both sides.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..clients.admin.admin_types import NewTopic
from ..clients.producer.partitioner import positive_hash
from ..clients.sync.admin_io import Admin
from ..clients.sync.producer_io import Producer
from . import ray_host
from .key_fields import KeyField, choose_key_field
from .line_sources_io import TextFile, process_metrics, read_lines, sample_lines
from .quickstart_read import PartitionRead, PartitionReader
from .ray_session import START_OWN, joined
from .record_sums import RecordSum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..clients.producer.delivery_io import RecordFuture
    from .cluster_files_io import ClusterFile

TOPIC = "quickstart"
NODES = 3
PARTITIONS = 6
TOP_KEYS = 10
METRICS_KEY = KeyField(1)  # the name of the process
CHUNK_LINES = 2000
MAX_OPEN_CHUNKS = 50  # Bound: unresolved results; the oldest are long done when they are checked
READY_TIMEOUT_S = 180.0
READ_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class PartitionPlace:
    """The location of one partition's data; `directory` is empty on another machine."""

    partition: int
    node: str
    directory: str
    size_bytes: int


@dataclass
class Outcome:
    """The results of the quickstart."""

    sent: list[RecordSum] = field(default_factory=lambda: [RecordSum() for _ in range(PARTITIONS)])
    read: list[PartitionRead] = field(default_factory=list)
    places: list[PartitionPlace] = field(default_factory=list)
    send_s: float = 0.0
    read_s: float = 0.0

    @property
    def total_sent(self) -> RecordSum:
        """The sum of all sent records."""
        return sum(self.sent, RecordSum())

    @property
    def total_read(self) -> RecordSum:
        """The sum of all read records."""
        return sum((part.total for part in self.read), RecordSum())

    @property
    def top_keys(self) -> list[tuple[bytes, int]]:
        """The most frequent keys; exact, because all records of a key are in one partition."""
        counts = Counter[bytes]()
        for part in self.read:
            counts.update(dict(part.top_keys))
        return counts.most_common(TOP_KEYS)

    def differences(self) -> list[str]:
        """Partitions whose sent and read sums differ; empty on success."""
        found = {part.partition: part.total for part in self.read}
        return [
            f"partition {partition}: {sent} in, {found.get(partition, RecordSum())} out"
            for partition, sent in enumerate(self.sent)
            if found.get(partition) != sent
        ]


def run(
    files: Sequence[TextFile],
    *,
    field_index: int | None,
    ray_address: str | None,
    keep: bool,
    report: Callable[[str], None],
    advance: Callable[[int], None],
) -> tuple[Outcome, str]:
    """Run the quickstart; returns the outcome and the data folder, which is deleted unless `keep`.

    Without files it uses process metrics. `advance` is called with the number of bytes read. The cluster and
    a Ray that was started for it are always stopped, also after Ctrl-C.
    """
    data_dir = tempfile.mkdtemp(prefix="headrace-quickstart-")
    name = f"quickstart-{os.getpid()}"
    address = ray_address or os.environ.get("RAY_ADDRESS") or START_OWN
    options = ray_host.UpOptions(cluster=name, nodes=NODES, data_dir=data_dir, ray_address=address)
    try:
        cluster = ray_host.up(options, report)
        try:
            outcome = _flow(cluster, files, field_index, report, advance)
        finally:
            ray_host.down(name, report, delete_data=not keep)
    finally:
        if not keep:
            shutil.rmtree(data_dir, ignore_errors=True)
    return outcome, data_dir


def _flow(
    cluster: ClusterFile,
    files: Sequence[TextFile],
    field_index: int | None,
    report: Callable[[str], None],
    advance: Callable[[int], None],
) -> Outcome:
    outcome = Outcome()
    bootstrap = ",".join(cluster.bootstrap)
    with Admin(bootstrap) as admin:
        _ = admin.create_topics(NewTopic(TOPIC, PARTITIONS, 1))[TOPIC]  # raises its error
    namespace = ray_host.namespace_of(cluster.cluster)
    with joined(cluster.ray_address, namespace, cluster.ray_env) as ray:
        readers = _Readers(ray, bootstrap)  # their processes start during the send
        report(f"sending to topic {TOPIC!r} with {PARTITIONS} partitions")
        started_s = time.monotonic()
        _send(bootstrap, _keyed_lines(files, field_index), outcome.sent, advance)
        outcome.send_s = time.monotonic() - started_s
        report(f"reading {PARTITIONS} partitions in parallel")
        outcome.read = readers.read()
    outcome.read_s = max(part.ended_s for part in outcome.read) - min(part.started_s for part in outcome.read)
    outcome.places = [_place(Path(cluster.data_dir), partition) for partition in range(PARTITIONS)]
    return outcome


def _keyed_lines(files: Sequence[TextFile], field_index: int | None) -> Iterator[tuple[bytes, bytes]]:
    """Key and line of every line; the key field is chosen per file, because formats differ."""
    for file in files:
        chosen = choose_key_field(sample_lines(file))
        yield from _with_keys(read_lines(file), chosen, field_index)
    if not files:
        yield from _with_keys(process_metrics(), METRICS_KEY, field_index)


def _with_keys(
    lines: Iterator[bytes], chosen: KeyField, field_index: int | None
) -> Iterator[tuple[bytes, bytes]]:
    key_field = chosen if field_index is None else KeyField(field_index - 1, chosen.separator)
    for line in lines:
        yield key_field.key_of(line), line


def _send(
    bootstrap: str,
    lines: Iterator[tuple[bytes, bytes]],
    sums: list[RecordSum],
    advance: Callable[[int], None],
) -> None:
    """Send every line and add it to the sums. Errors: that of the first record that was not acknowledged."""
    with Producer(bootstrap, acks="all", linger_ms=10) as producer:
        send = producer.send
        sent: deque[list[RecordFuture]] = deque()
        while chunk := list(itertools.islice(lines, CHUNK_LINES)):
            sent.append([send(TOPIC, line, key=key) for key, line in chunk])
            size_bytes = 0
            for key, line in chunk:
                sums[positive_hash(key) % PARTITIONS].add(key, line)  # the partition that the record is in
                size_bytes += len(line) + 1
            advance(size_bytes)
            if len(sent) > MAX_OPEN_CHUNKS:
                _raise_if_failed(sent.popleft())
        producer.flush()
        for futures in sent:
            _raise_if_failed(futures)


def _raise_if_failed(futures: list[RecordFuture]) -> None:
    for future in futures:
        future.result()


class _Readers:
    """One reader per partition, each a Ray actor that ends with the connection to Ray."""

    def __init__(self, ray: Any, bootstrap: str) -> None:
        self._ray = ray
        reader = ray.remote(PartitionReader).options(num_cpus=0.1, max_restarts=0)
        self._readers = [reader.remote(bootstrap, TOPIC, partition) for partition in range(PARTITIONS)]

    def read(self) -> list[PartitionRead]:
        """Read all partitions in parallel, once all readers are up."""
        ends = self._ray.get(
            [reader.end_offset.remote() for reader in self._readers], timeout=READY_TIMEOUT_S
        )
        calls = [reader.read.remote(end, TOP_KEYS) for reader, end in zip(self._readers, ends, strict=True)]
        reads: list[PartitionRead] = self._ray.get(calls, timeout=READ_TIMEOUT_S)
        return reads


def _place(data_dir: Path, partition: int) -> PartitionPlace:
    for directory in sorted(data_dir.glob(f"node-*/{TOPIC}-{partition}")):
        size_bytes = sum(path.stat().st_size for path in directory.glob("*.log"))
        return PartitionPlace(partition, directory.parent.name, str(directory), size_bytes)
    return PartitionPlace(partition, "another machine", "", 0)
