"""The records of a program that ends without closing its producer, for every kind of exit.

Each program runs in a process of its own beside a cluster in this one: it sends 101 records, and either all
of them are stored, or its stderr has an ERROR line with their number and a ResourceWarning.
"""

import subprocess
import sys
import textwrap
from collections.abc import Iterator

import headrace
import pytest
from headrace import NewTopic, TopicPartition

COUNT = 101

PREAMBLE = """
import asyncio, contextlib, gc, os, sys
import headrace
from headrace.aio import AsyncProducer

bootstrap, topic = sys.argv[1:]
options = {"linger_ms": 50, "max_block_ms": 60_000}


async def send(producer):
    first = producer.send(topic, b"0")
    for number in range(1, 101):
        producer.send(topic, b"%d" % number)
    await first
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[headrace.LocalCluster]:
    """One node; each program has a topic of its own."""
    with headrace.local() as cluster:
        yield cluster


def run(bootstrap: str, topic: str, program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "default::ResourceWarning", "-c", PREAMBLE + textwrap.dedent(program)]
    return subprocess.run(
        [*command, bootstrap, topic], capture_output=True, text=True, timeout=120, check=False
    )


def play(cluster: headrace.LocalCluster, name: str, program: str) -> tuple[int, str, int]:
    """(exit code, stderr, how many records are stored)."""
    with cluster.admin() as admin, headrace.Consumer(bootstrap=cluster.bootstrap) as consumer:
        admin.create_topics(NewTopic(name)).raise_for_errors()
        done = run(cluster.bootstrap, name, program)
        tp = TopicPartition(name, 0)
        consumer.assign([tp])
        return done.returncode, done.stderr, consumer.end_offsets()[tp]


@pytest.mark.parametrize(
    ("name", "code", "program"),
    [
        (
            "returns",
            0,
            """
            async def main():
                await send(AsyncProducer(bootstrap, **options))

            asyncio.run(main())
            """,
        ),
        (
            "awaits_nothing",  # not even the topic is known when the loop ends
            0,
            """
            async def main():
                producer = AsyncProducer(bootstrap, **options)
                for number in range(101):
                    producer.send(topic, b"%d" % number)

            asyncio.run(main())
            """,
        ),
        (
            "sys_exit",
            3,
            """
            async def main():
                await send(AsyncProducer(bootstrap, **options))
                sys.exit(3)

            asyncio.run(main())
            """,
        ),
        (
            "raises",
            1,
            """
            async def main():
                await send(AsyncProducer(bootstrap, **options))
                raise ValueError("the program's own error")

            asyncio.run(main())
            """,
        ),
        (
            "collected",
            0,
            """
            async def main():
                await send(AsyncProducer(bootstrap, **options))
                gc.collect()
                await asyncio.sleep(0)

            asyncio.run(main())
            """,
        ),
        (
            "cancels_all_tasks",  # as many a handler of SIGTERM does
            0,
            """
            async def main():
                producer = AsyncProducer(bootstrap, **options)
                await send(producer)
                others = asyncio.all_tasks() - {asyncio.current_task()}
                for task in others:
                    task.cancel()
                await asyncio.gather(*others, return_exceptions=True)
                await producer.close()

            asyncio.run(main())
            """,
        ),
        (
            "shared_cluster",
            0,
            """
            async def main():
                await send(headrace.aio.connect(bootstrap).producer(**options))

            asyncio.run(main())
            """,
        ),
        (
            "own_loop",
            0,
            """
            loop = asyncio.new_event_loop()
            loop.run_until_complete(send(AsyncProducer(bootstrap, **options)))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
            """,
        ),
        (
            "forks",  # the child leaves the loop as the parent does, and must not send the parent's records
            0,
            """
            parent = os.getpid()

            async def main():
                producer = AsyncProducer(bootstrap, linger_ms=1000)
                await producer.partitions_for(topic)
                for number in range(101):
                    producer.send(topic, b"%d" % number)
                child = os.fork()
                if child:
                    assert os.waitpid(child, 0)[1] == 0

            try:
                asyncio.run(main())
            finally:
                if os.getpid() != parent:
                    os._exit(0)
            """,
        ),
        (
            "sync",
            0,
            """
            producer = headrace.Producer(bootstrap, linger_ms=60_000)
            for number in range(101):
                producer.send(topic, b"%d" % number)
            """,
        ),
    ],
)
def test_records_are_stored_when_the_program_ends(
    cluster: headrace.LocalCluster, name: str, code: int, program: str
) -> None:
    """The end of the loop, or of the interpreter, flushes; what the program raised is what it ends with."""
    returncode, stderr, stored = play(cluster, name, program)
    assert (returncode, stored) == (code, COUNT), stderr
    assert "ERROR" not in stderr.upper().replace("VALUEERROR: THE PROGRAM'S OWN ERROR", "")
    assert "ResourceWarning" not in stderr


def test_loop_closed_without_shutdown_reports_the_records(cluster: headrace.LocalCluster) -> None:
    """Nothing can be sent after that: the count and the topic are on stderr."""
    program = """
    import logging
    logging.basicConfig(format="%(levelname)s %(name)s %(message)s")
    producer = None

    async def main():
        global producer
        producer = AsyncProducer(bootstrap, linger_ms=60_000)
        await producer.partitions_for(topic)
        for number in range(101):
            producer.send(topic, b"%d" % number)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
    """
    _, stderr, stored = play(cluster, "closed_loop", program)
    assert stored == 0
    assert "ERROR headrace.client" in stderr
    assert f"{COUNT} records not acknowledged: {COUNT} for 'closed_loop'" in stderr
    assert "ResourceWarning" in stderr


@pytest.mark.parametrize("kind", ["aio", "sync"])
def test_unreachable_cluster_is_reported_at_exit(cluster: headrace.LocalCluster, kind: str) -> None:
    """The program ends in bounded time, with the count and the topic on stderr."""
    programs = {
        "aio": """
        async def main():
            producer = AsyncProducer(bootstrap, **options)
            await producer.partitions_for(topic)
            print("ready", flush=True)
            sys.stdin.readline()  # the node is gone
            for number in range(101):
                producer.send(topic, b"%d" % number)

        asyncio.run(main())
        """,
        "sync": """
        producer = headrace.Producer(bootstrap, **options)
        producer.partitions_for(topic)
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(101):
            producer.send(topic, b"%d" % number)
        """,
    }
    name = f"unreachable_{kind}"
    with headrace.local() as gone:
        gone.admin().create_topics(NewTopic(name)).raise_for_errors()
        program = PREAMBLE + textwrap.dedent(programs[kind]).replace(
            "**options", "delivery_timeout_ms=1500, request_timeout_ms=1000"
        )
        process = subprocess.Popen(
            [sys.executable, "-W", "default::ResourceWarning", "-c", program, gone.bootstrap, name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            gone.kill_node(0)
            _, stderr = process.communicate("go\n", timeout=120)
    assert f"{name}-0: not acknowledged" in stderr, "the first delivery error names the partition"
    assert f"whose futures were not checked: {COUNT}" in stderr
    assert "ResourceWarning" in stderr
