"""Raw requests of a scenario; their responses are noted."""

from typing import Any, Self

from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import HEADER_BYTES, Compression, read_batch_header
from headrace.runtime.waiting_io import until

from .scene import Scene
from .secured_io import ADMIN, unsigned_token
from .wire import KEYS, Closed, Wire

NOW = 1_700_000_000_000
NOT_SERVED = "not advertised"
BUSY = (
    "coordinator_load_in_progress",
    "coordinator_not_available",
    "not_coordinator",
    "concurrent_transactions",
    "not_leader_or_follower",
)
BUSY_S = 30.0


def batch(
    count: int = 3,
    *,
    timestamp: int = NOW,
    compression: Compression = Compression.NONE,
    key: bytes | None = b"key",
    **more: Any,
) -> bytes:
    """A batch of records with values v-0, v-1, ...; `more`: the producer's fields."""
    builder = active_codec().builder(max_bytes=1 << 20, compression=compression, **more)
    for number in range(count):
        builder.append(timestamp + number, key, b"v-%d" % number, [("h", b"x")])
    return builder.build()


def _opened(value: Any) -> Any:
    """A response with decoded batches."""
    if isinstance(value, list):
        return [_opened(each) for each in value]
    if not isinstance(value, dict):
        return value
    decoded = {name: _opened(each) for name, each in value.items()}
    if isinstance(value.get("records"), bytes):
        decoded["records"] = batches(value["records"])
    return decoded


def batches(data: bytes) -> list[Any]:
    """The header and records of each batch, and the number of bytes after the last complete one."""
    found: list[Any] = []
    view = memoryview(data)
    while len(view) >= HEADER_BYTES and len(view) >= read_batch_header(view).size_bytes:
        header = read_batch_header(view)
        records = active_codec().decode(view[: header.size_bytes])
        found.append(
            {
                "offsets": [header.base_offset, header.last_offset],
                "leader_epoch": header.leader_epoch,
                "compression": header.compression_id,
                "timestamps": [header.timestamp_type.name, header.base_timestamp, header.max_timestamp],
                "producer_id": header.producer_id,
                "producer": [header.producer_epoch, header.base_sequence],
                "kind": [header.is_transactional, header.is_control],
                "records": [
                    [each.offset, each.timestamp, each.key, each.value, each.headers] for each in records
                ],
            }
        )
        view = view[header.size_bytes :]
    return [*found, len(view)] if view else found


class Asking:
    """A scenario's connection to one node. A version that is not advertised is noted as such.

    `user`: of a secured system, authenticated by an unsecured token.
    """

    def __init__(self, scene: Scene, node: int = 1, *, user: str = ADMIN) -> None:
        self.scene, self.node, self.user = scene, node, user
        self.wire = self._connected()
        ranges = self.wire.ask("api_versions", 0)["api_keys"]
        self.ranges = {
            each["api_key"]: range(each["min_version"], each["max_version"] + 1) for each in ranges
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.__exit__()

    def _connected(self) -> Wire:
        wire = Wire(self.scene.system.address(self.node))
        if self.scene.system.files is not None:
            wire.authenticate(unsigned_token(self.user))
        return wire

    def ask(self, label: str, api: str, version: int, **fields: Any) -> dict[str, Any]:
        """The response, noted under `label` if that is not empty; {} without a response."""
        answer: dict[str, Any] = {}
        if version not in self.ranges.get(KEYS[api], ()):
            noted: Any = NOT_SERVED
        else:
            try:
                noted = answer = self.wire.ask(api, version, **fields)
            except Closed:
                noted = "closed"
                self.wire = self._connected()
            except TimeoutError:
                noted = "no answer"
                self.wire = self._connected()
        if label:
            self.scene.note(label, _opened(noted))
        return answer

    def settled(self, label: str, api: str, version: int, **fields: Any) -> dict[str, Any]:
        """As `ask`, repeated while a coordinator is loading or busy with earlier requests."""
        found: dict[str, Any] = {}

        def is_settled() -> bool:
            found.clear()
            found.update(self.ask("", api, version, **fields))
            return not any(repr(word) in str(found) for word in BUSY)

        if version in self.ranges.get(KEYS[api], ()):
            assert until(is_settled, BUSY_S), found
        if label:
            self.scene.note(label, found or NOT_SERVED)
        return found

    def create(self, topic: str = "", partitions: int = 1, **configs: str) -> str:
        """Create a topic, by default the scenario's own; its id as text."""
        created = self.ask(
            "",
            "create_topics",
            7,
            timeout=10_000,
            topics=[
                {
                    "name": topic or self.scene.topic,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": [
                        {"name": name.replace("_", "."), "value": value} for name, value in configs.items()
                    ],
                }
            ],
        )
        assert created["topics"][0]["error_code"] == "none", created
        name = topic or self.scene.topic
        assert until(lambda: self._is_led(name, partitions), BUSY_S), name
        return str(self.wire.ask("metadata", 12, topics=[{"name": name}])["topics"][0]["topic_id"])

    def _is_led(self, topic: str, partitions: int) -> bool:
        """Whether the node leads each partition: it applies metadata later than its controller."""
        numbers = range(partitions)
        parts = [{"partition_index": each, "current_leader_epoch": -1, "timestamp": -1} for each in numbers]
        wanted = [{"name": topic, "partitions": parts}]
        (found,) = self.wire.ask("list_offsets", 5, replica_id=-1, topics=wanted)["topics"]
        return all(part["error_code"] == "none" for part in found["partitions"])

    def until_stable(self) -> None:
        """Until partition 0 of the scenario's topic has the markers of all transactions."""

        def end(isolation: int) -> int:
            part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
            topics = [{"name": self.scene.topic, "partitions": [part]}]
            fields = {"replica_id": -1, "isolation_level": isolation, "topics": topics}
            return int(self.wire.ask("list_offsets", 5, **fields)["topics"][0]["partitions"][0]["offset"])

        assert until(lambda: end(1) == end(0), BUSY_S)

    def produce(
        self, label: str, data: bytes | None, *, version: int = 9, acks: int = -1, **more: Any
    ) -> dict[str, Any]:
        """One batch to partition 0 of the scenario's topic; `more`: topic, partition, transactional_id."""
        part = {"index": more.pop("partition", 0), "records": data}
        topic = {"name": more.pop("topic", self.scene.topic), "partition_data": [part]}
        return self.ask(label, "produce", version, acks=acks, timeout=10_000, topic_data=[topic], **more)

    def settled_produce(self, label: str) -> None:
        """As `produce`, one batch, as soon as this node leads partition 0 of the scenario's topic."""
        topics = [{"name": self.scene.topic, "partition_data": [{"index": 0, "records": batch()}]}]
        self.settled(label, "produce", 12, acks=-1, timeout=10_000, topic_data=topics)

    def all_committed(self, label: str) -> None:
        """Note what a read_committed reader gets of partition 0, and the aborted transactions.

        Batch by batch: Kafka returns a single one while it has to look up the end of a transaction.
        """
        found: list[Any] = []
        aborted: list[Any] = []
        offset, end = 0, 1
        while offset < end:
            (part,) = self.fetch("", offset=offset, isolation_level=1)["responses"][0]["partitions"]
            end, more = part["last_stable_offset"], batches(part["records"])
            aborted += [each for each in part["aborted_transactions"] if each not in aborted]
            found += more
            offset = more[-1]["offsets"][1] + 1
        self.scene.note(label, {"batches": found, "aborted": aborted})

    def fetch(self, label: str, *, version: int = 11, **more: Any) -> dict[str, Any]:
        """From partition 0 of the scenario's topic; `more`: offset, topic, and fields of the request."""
        part = {
            "partition": more.pop("partition", 0),
            "fetch_offset": more.pop("offset", 0),
            "current_leader_epoch": more.pop("epoch", -1),
            "partition_max_bytes": 1 << 20,
        }
        topics = [{"topic": more.pop("topic", self.scene.topic), "partitions": [part]}]
        request = {
            "replica_id": -1,
            "max_bytes": 1 << 20,
            "min_bytes": 1,
            "max_wait": 100,
            "session_epoch": -1,
        }
        return self.ask(label, "fetch", version, **{**request, "topics": topics, **more})
