"""Any request that Kafka's schemas allow, and bytes that they do not: answered or cut off, nobody is hurt."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from headrace.services.kafka_listener.entities import MS
from headrace.services.kafka_listener.served import SERVED
from headrace.services.kafka_listener.skimming import kind_of
from headrace.services.local_io import local
from kafka_clients import consume, new_topic, produce
from kafka_listener_rig import WireClient
from kafka_wire import framed, request_frame, request_head
from kio.index import load_request_schema
from kio.serial.errors import SerialError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.services.kafka_listener.calls import KafkaApi
    from headrace.services.local_io import LocalCluster

ANSWER_S = 20.0
API_VERSIONS, LAST = 18, 8
# They do what they say to the cluster itself.
HARMFUL = {"UnregisterBroker", "RemoveRaftVoter", "AddRaftVoter", "AlterReplicaLogDirs"}
VALUES: dict[str, tuple[Any, ...]] = {
    "timedelta_i32": (0 * MS, 1 * MS, 50 * MS, -1 * MS),
    "timedelta_i64": (0 * MS, 50 * MS, -1 * MS),
    "string": ("t", "t", "g", "", "new topic", "x" * 300, "retention.ms", "\u20ac", "1", "range"),
    "bytes": (b"", b"x" * 70, bytes(61), b"\xff" * 200),
    "records": (b"", b"x" * 70, bytes(61), b"\xff" * 200),
    "bool": (True, False),
    "float64": (1.5,),
}
INTS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16}


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Two nodes, a topic with records, a group."""
    with local(nodes=2, listeners="PLAINTEXT://127.0.0.1:0", group_min_session_timeout_ms=1) as made:
        new_topic(made, "t", 2)
        produce(made, "t", [b"a", b"b"])
        yield made


class Maker:
    """Requests with values from the edges and from what exists."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.ids = [uuid.UUID(int=7)]

    def entity(self, schema: Any) -> Any:
        return schema(**{field.name: self._value(field) for field in dataclasses.fields(schema)})

    def _value(self, field: Any) -> Any:
        kind, is_array = kind_of(field.type)
        chance = self._random.random()
        if chance < 0.1 and "None" in str(field.type):
            return None
        if is_array:
            count = self._random.choice((0, 1, 1, 2, 3))
            return tuple(self._one(kind, field) for _ in range(count))
        is_default = field.metadata.get("tag") is not None and chance < 0.7
        if is_default and field.default is not dataclasses.MISSING:
            return field.default
        return self._one(kind, field)

    def _one(self, kind: Any, field: Any) -> Any:
        if dataclasses.is_dataclass(kind):
            return self.entity(kind)
        name = field.metadata.get("kafka_type", "")
        if name in INTS:
            top = 2 ** (INTS[name] - 1)
            edges = (top - 1,) if name == "uint16" else (-1, -2, top - 1, -top)
            return self._random.choice((0, 1, 2, 3, 10, 17, *edges))
        found = VALUES.get(name, (0, 1))
        return self._random.choice((None, *self.ids) if name == "uuid" else found)


async def ask(port: int, api: KafkaApi, version: int, maker: Maker) -> None:
    """An answer, or the end of the connection."""
    client = await WireClient.to(port)
    try:
        frame = request_frame(api.key, version, maker.entity(load_request_schema(api.key, version)))
    except (SerialError, TypeError, ValueError):
        client.close()
        return  # kio refuses to write it
    client.write(framed(frame))
    # one behind it, since acks=0 has no answer
    client.write(framed(request_head(API_VERSIONS, 0, LAST)))
    async with asyncio.timeout(ANSWER_S):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while int.from_bytes((await client.frame())[:4], "big") != LAST:
                pass
    client.close()


@pytest.mark.parametrize("seed", range(4))
def test_any_request_is_answered_or_cut_off(cluster: LocalCluster, seed: int) -> None:
    """Every version of every api; no translation breaks, and the cluster serves on."""
    ports = [int(each.rpartition(":")[2]) for each in cluster.kafka_bootstrap.split(",")]
    maker = Maker(seed)
    with cluster.admin() as admin:
        maker.ids += [uuid.UUID(bytes=topic.topic_id) for topic in admin.describe_topics("t").values()]

    async def scenario() -> None:
        for api in sorted(SERVED.values(), key=lambda each: each.name == "DeleteTopics"):
            if api.name not in HARMFUL:
                versions = range(api.low, api.high + 1)
                await asyncio.gather(*(ask(ports[version % 2], api, version, maker) for version in versions))

    asyncio.run(scenario())
    for node in cluster.status()["nodes"]:
        assert node["kafka"]["broken"] == 0
    name = new_topic(cluster, f"alive-{seed}", 1)
    produce(cluster, name, [b"still here"])
    assert consume(cluster, name, 1, 1) == [b"still here"]


def test_noise_costs_nobody_anything(cluster: LocalCluster) -> None:
    """Random bytes, also behind an honest beginning; the memory of all of it is given back."""
    ports = [int(each.rpartition(":")[2]) for each in cluster.kafka_bootstrap.split(",")]
    source = random.Random(5)

    async def noise(number: int) -> None:
        client = await WireClient.to(ports[number % 2])
        data = source.randbytes(source.randrange(1, 3_000))
        if number % 3:
            api = source.choice(list(SERVED.values()))
            data = framed(request_head(api.key, source.randint(api.low, api.high)) + data)
        client.write(data)
        await asyncio.sleep(0)
        client.close()

    async def scenario() -> None:
        for _ in range(20):
            await asyncio.gather(*(noise(number) for number in range(30)))

    asyncio.run(scenario())
    assert len(consume(cluster, "t", 2, 2)) == 2
    for node in cluster.status()["nodes"]:
        assert node["kafka"]["broken"] == 0
