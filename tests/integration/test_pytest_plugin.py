"""The fixtures of the pytest plugin, in pytest runs of their own."""

from pathlib import Path

import pytest
from forking import run_forked
from headrace.services.local_io import LocalCluster
from headrace.services.pytest_plugin import ClusterFactory


def run_tests(folder: Path, tests: str, *lines: str) -> str:
    """Run the tests with ini lines, in a process of their own; its output. Fails when a test fails."""
    code, output = outcome_of(folder, tests, *lines)
    assert code == 0, output
    return output


def outcome_of(folder: Path, tests: str, *lines: str) -> tuple[int, str]:
    (folder / "test_it.py").write_text(tests)
    ini = ("[pytest]", "addopts = --strict-markers -p no:cacheprovider", "filterwarnings = error", *lines)
    (folder / "pytest.ini").write_text("\n".join(ini))
    done = run_forked(["-m", "pytest", "-q", "."], folder=str(folder), timeout_s=500)
    return done.returncode, (done.stdout + done.stderr).decode()


def test_call_overrides_marker_overrides_ini(tmp_path: Path) -> None:
    """The ini option applies to all fixtures; the nearest marker overrides it, a call overrides both."""
    tests = """
import pytest

pytestmark = pytest.mark.headrace(nodes=2)


def nodes(cluster):
    return len(cluster.bootstrap.split(","))


def partitions(cluster):
    import headrace
    return cluster.admin().create_topics(headrace.NewTopic("t"))["t"].partitions


def test_module_marker(headrace_cluster):
    assert (nodes(headrace_cluster), partitions(headrace_cluster)) == (2, 5)


@pytest.mark.headrace(nodes=1, num_partitions=3, listeners="PLAINTEXT://127.0.0.1:0")
def test_own_marker(headrace_cluster):
    assert (nodes(headrace_cluster), partitions(headrace_cluster)) == (1, 3)
    assert headrace_cluster.kafka_bootstrap.startswith("127.0.0.1:")


def test_factory(headrace_cluster_factory, tmp_path):
    first = headrace_cluster_factory()
    second = headrace_cluster_factory(nodes=1, controllers=3, data_dir=str(tmp_path))
    assert (nodes(first), nodes(second), len(second.status()["controllers"])) == (2, 1, 3)
    assert partitions(second) == 5
    assert any(tmp_path.iterdir())
"""
    assert "3 passed" in run_tests(
        tmp_path, tests, "headrace_options =", "    num.partitions=5", "    nodes = 3"
    )


def test_session_cluster_is_shared_and_serves_asyncio(tmp_path: Path) -> None:
    """One cluster for all tests of a run, with blocking clients in one and asyncio clients in the next."""
    tests = """
import asyncio
import headrace


def test_blocking(headrace_session_cluster):
    headrace_session_cluster.admin().create_topics(headrace.NewTopic("shared")).raise_for_errors()
    with headrace_session_cluster.producer() as producer:
        producer.send("shared", b"from a blocking client").result(timeout=60)


def test_asyncio(headrace_session_cluster):
    async def scenario():
        async with headrace.aio.connect(headrace_session_cluster.bootstrap) as clients:
            await clients.producer().send("shared", b"from asyncio")
            consumer = clients.consumer("shared", auto_offset_reset="earliest")
            values = []
            while len(values) < 2:
                values += [record.value for record in await consumer.poll(timeout=60)]
            return values

    assert asyncio.run(scenario()) == [b"from a blocking client", b"from asyncio"]

"""
    assert "2 passed" in run_tests(tmp_path, tests)


@pytest.mark.parametrize(
    ("lines", "marker", "response"),
    [
        (["headrace_options = nodes"], "", "headrace_options: 'nodes' is not key=value"),
        (["headrace_options = nodes=many"], "", "headrace_options: nodes is a number, not 'many'"),
        (["headrace_options = num.partition=4"], "", "unknown config key 'num.partition'"),
        ([], "@pytest.mark.headrace(3)", "takes keywords, such as nodes=3"),
    ],
)
def test_invalid_options_are_refused(tmp_path: Path, lines: list[str], marker: str, response: str) -> None:
    """No cluster is started with a part of the options."""
    tests = f"import pytest\n\n{marker}\ndef test_it(headrace_cluster):\n    pass\n"
    code, output = outcome_of(tmp_path, tests, *lines)
    assert code != 0
    assert response in output


def test_fixtures_are_typed(headrace_cluster: LocalCluster, headrace_cluster_factory: ClusterFactory) -> None:
    """With the types that a user's tests name."""
    assert headrace_cluster.bootstrap != headrace_cluster_factory(nodes=1).bootstrap
