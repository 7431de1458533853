"""A leader is killed while each client produces: what was acknowledged is what all replicas hold."""

import asyncio
import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

from aiokafka import AIOKafkaProducer
from headrace.benchmarks.servers.kafka_io import run_tool
from headrace.runtime.waiting_io import until

from ..asking import batches
from ..scene import Scene, scenario
from ..three import CHANGE_S, Nodes
from . import aio_kafka, confluent, java_tools, kafka_python, kcat

FIRST = 300  # records that are there when the leader is killed
AFTER = 300  # and that are sent once it is
TOOL_RECORDS = 3000
PAUSE_S = 0.001
END_S = 90.0

Produce = Callable[[Scene, threading.Event], list[str]]


def values(killed: threading.Event) -> Iterator[str]:
    """One after another until the leader is killed, and some more."""
    number = left = 0
    while left < AFTER:
        left += killed.is_set()
        yield f"v-{number}"
        number += 1
        killed.wait(PAUSE_S)


def under_kill(scene: Scene, produce: Produce) -> None:
    """`produce` sends idempotently and returns what was acknowledged; it raises if anything was not."""
    killed = threading.Event()
    with Nodes(scene) as nodes:
        nodes.create(scene.topic, (1, 2, 3), min_insync_replicas="2")
        response: list[Any] = ["it did not end"]

        def run() -> None:
            try:
                response[:] = produce(scene, killed)
            except Exception as error:  # noqa: BLE001 - what the client raises is what it saw
                response[:] = [repr(error)]

        sending = threading.Thread(target=run, daemon=True)
        sending.start()
        assert until(lambda: end_of(nodes, 1) >= FIRST or not sending.is_alive(), CHANGE_S), response
        nodes.kill(1)
        killed.set()
        sending.join(END_S)
        acknowledged = list(response)
        nodes.back()
        nodes.until_placed(scene.topic, (2, (1, 2, 3)))
        found = held(nodes, 2)
        scene.note("acknowledged", "all" if acknowledged == found else [acknowledged[:3], acknowledged[-3:]])
        scene.note("in order", found == [f"v-{number}" for number in range(len(found))])
        scene.note("enough", len(found) >= FIRST + AFTER)
        scene.note("leader epochs", sorted(epochs(nodes, 2)))

        def bytes_of(number: int) -> list[bytes]:
            folder = scene.system.log_of(number, f"{scene.topic}-0")
            return [path.read_bytes() for path in sorted(folder.glob("0*.log"))]

        scene.note("replicas are equal", until(lambda: bytes_of(1) == bytes_of(2) == bytes_of(3), CHANGE_S))


def end_of(nodes: Nodes, node: int) -> int:
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": nodes.scene.topic, "partitions": [part]}]
    response = nodes[node].wire.ask("list_offsets", 5, replica_id=-1, topics=topics)
    return int(response["topics"][0]["partitions"][0]["offset"])


def all_batches(nodes: Nodes, node: int) -> Iterator[dict[str, Any]]:
    offset, end = 0, end_of(nodes, node)
    while offset < end:
        (part,) = nodes[node].fetch("", offset=offset)["responses"][0]["partitions"]
        for each in batches(part["records"]):
            if isinstance(each, dict):  # and not the beginning of one more
                yield each
                offset = each["offsets"][1] + 1


def held(nodes: Nodes, node: int) -> list[str]:
    return [
        record[3].decode().replace("1.", "v-")
        for each in all_batches(nodes, node)
        for record in each["records"]
    ]


def epochs(nodes: Nodes, node: int) -> set[int]:
    return {each["leader_epoch"] for each in all_batches(nodes, node)}


def add(client: str, produce: Produce) -> None:
    scenario(client, "a leader is killed during produce", nodes=3)(lambda scene: under_kill(scene, produce))


def by_librdkafka(scene: Scene, killed: threading.Event) -> list[str]:
    acknowledged: list[str] = []
    failed: list[str] = []

    def delivered(error: Any, message: Any) -> None:
        (failed if error else acknowledged).append(str(error) if error else message.value().decode())

    sender = confluent.producer(scene, enable_idempotence=True)
    for value in values(killed):
        sender.produce(scene.topic, value, on_delivery=delivered)
        sender.poll(0)
    sender.flush(END_S)
    return failed or acknowledged


def by_kafka_python(scene: Scene, killed: threading.Event) -> list[str]:
    sender = kafka_python.producer(scene, enable_idempotence=True, acks="all")
    sent = [(value, sender.send(scene.topic, value.encode())) for value in values(killed)]
    found = [value for value, future in sent if future.get(timeout=END_S)]
    sender.close()
    return found


def by_aiokafka(scene: Scene, killed: threading.Event) -> list[str]:
    async def sending() -> list[str]:
        sender = AIOKafkaProducer(bootstrap_servers=scene.bootstrap, enable_idempotence=True)
        await sender.start()
        sent = []
        for value in values(killed):
            sent.append((value, await sender.send(scene.topic, value.encode())))
            await asyncio.sleep(0)
        async with asyncio.timeout(END_S):
            found = [value for value, future in sent if await future]
        await sender.stop()
        return found

    return asyncio.run(sending())


def by_kcat(scene: Scene, killed: threading.Event) -> list[str]:
    command = ["kcat", "-b", scene.bootstrap, "-P", "-t", scene.topic, "-X", "enable.idempotence=true"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdin is not None
    sent = []
    for value in values(killed):
        process.stdin.write(value + "\n")
        process.stdin.flush()
        sent.append(value)
    process.stdin.close()
    status = process.wait(END_S)
    return [f"exit status {status}"] if status else sent


def by_java(scene: Scene, _killed: threading.Event) -> list[str]:
    arguments = ("--bootstrap-server", scene.bootstrap, "--topic", scene.topic, "--acks", "-1")
    rate = ("--max-messages", str(TOOL_RECORDS), "--throughput", "400", "--value-prefix", "1")
    # this one does not retry by itself
    with scene.file("retries=1000000\n") as config:
        more = ("--producer.config", config)
        printed = run_tool(f"{java_tools.TOOLS}.VerifiableProducer", *arguments, *rate, *more)
    response = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    failed = [each for each in response if each["name"] == "producer_send_error"]
    return failed or [
        each["value"].replace("1.", "v-") for each in response if each["name"] == "producer_send_success"
    ]


add(confluent.CLIENT, by_librdkafka)
add(kafka_python.CLIENT, by_kafka_python)
add(aio_kafka.CLIENT, by_aiokafka)
add(java_tools.CLIENT, by_java)
if shutil.which("kcat"):
    add(kcat.CLIENT, by_kcat)
