"""The programs in examples/ run as they stand and print what they promise."""

import os
import shutil
from pathlib import Path

import pytest
from forking import run_forked

EXAMPLES = Path(__file__).parents[2] / "examples"
PROMISED = {
    "arrow_roundtrip.py": ["rows 100000", "hot     31.99", "mild    17.99", "cold     3.99"],
    "bounce_leaders.py": ["lost               0"],
    "kafka_clients/aio_kafka.py": ["aiokafka: 1000 squares, sum 332833500"],
    "kafka_clients/confluent.py": ["confluent-kafka: 1000 messages, sum 499500"],
    "kafka_clients/kafka_python.py": ["kafka-python: 1000 messages, sum 499500"],
    "orders.py": ["alice   19.75", "bob      3.00", "carol    1.00"],
    "pipeline_asyncio.py": ["the    6", "wheel  2", "stone  2"],
    "streams/arrow_outliers.py": ["25 outliers of 60,000 records, sum 1030.0"],
    "streams/enrich_http.py": [
        "ann  2950, in order: True",
        "bob  1050, in order: True",
        "cem  1550, in order: True",
    ],
    "streams/fraud.py": [
        "50 s: card 1111 spent 1100 within a minute",
        "95 s: card 3333 spent 1200 within a minute",
    ],
    "streams/orders_users.py": [
        "o4 dee unknown    9.00",
        "o5 cem Turkey     7.00",
        "Norway    24.50",
        "Peru       5.50",
        "Turkey     7.00",
        "unknown    9.00",
    ],
    "streams/top_pages.py": ["as computed in plain Python: True"],
}
RUN = EXAMPLES / "kafka_clients" / "run.py"
# of what is not Python: what it needs, and what it prints
CLIENTS = {
    "go": (["go"], "franz-go: 1000 squares, sum 332833500"),
    "java": (["java", "mvn"], "kafka-clients: 1000 squares, sum 332833500"),
    "kcat": (["kcat"], "kcat: 1000 messages, sum 499500"),
    "node": (["node", "npm"], "kafkajs: 1000 squares, sum 332833500"),
    "streams": (["java", "mvn"], "kafka-streams: {is=200, log=200, the=400, thing=200}"),
}


def test_every_example_is_listed() -> None:
    """A new example needs its expected output here."""
    # pipelines need environments of their own: test_ray_pipelines, tests/spark35 and tests/spark4
    beside = {"build", "pipelines"}
    streams = EXAMPLES / "streams"
    # workers_on_ray.py: tests/integration/test_ray_streams.py
    no_example = {RUN, streams / "common.py", streams / "run.py", streams / "workers_on_ray.py"}
    found = {path for path in EXAMPLES.rglob("*.py") if not beside & set(path.parts)} - no_example
    assert sorted(str(path.relative_to(EXAMPLES)) for path in found) == sorted(PROMISED)
    assert sorted(script.parent.name for script in RUN.parent.glob("*/run")) == sorted(CLIENTS)


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_example_runs(name: str) -> None:
    """In its own process, with warnings as errors except for other projects' clients."""
    is_own = not name.startswith("kafka_clients/")
    options = ("-W", "error") if is_own else ()
    done = run_forked([*options, str(EXAMPLES / name)], timeout_s=500)
    printed, errors = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, errors
    assert printed.splitlines()[-len(PROMISED[name]) :] == PROMISED[name]
    # a busy machine stalls servers, which they report
    assert not is_own or all(" was stalled for " in line for line in errors.splitlines())


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_client_of_another_language_runs(client: str) -> None:
    """The one command of examples/kafka_clients/README.md; the first run fetches and builds."""
    needed, promised = CLIENTS[client]
    missing = [tool for tool in needed if shutil.which(tool) is None]
    if missing and not os.environ.get("HEADRACE_REQUIRE_KAFKA"):
        pytest.skip(f"not installed: {missing}")
    done = run_forked([str(RUN), client], timeout_s=1000)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().splitlines() == [promised]
