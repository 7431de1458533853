"""`headrace node remove` on Ray: the actor ends, and no later `up` starts it again; its replacement gets a
share of the replicas by `headrace balance`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from headrace_command import Headrace

pytestmark = [pytest.mark.ray, pytest.mark.faults]  # a minute of a Ray of its own


def names(headrace: Headrace) -> list[str]:
    return [node["name"] for node in headrace.running()["nodes"]]


def replicas(headrace: Headrace) -> dict[int, int]:
    out, _ = headrace.run("node", "list", "-o", "json")
    rows: list[dict[str, Any]] = json.loads(out)
    return {row["node_id"]: row["partitions"] for row in rows}


@pytest.fixture
def headrace(tmp_path: Path) -> Iterator[Headrace]:
    with Headrace(tmp_path).running_ray() as address:
        folder = tmp_path / "cluster"
        folder.mkdir()
        yield Headrace(folder, address)


def test_a_node_is_removed_and_replaced(headrace: Headrace) -> None:
    """Node 2 of three leaves: its actor and its data are gone, the records are not. `up` again does not start
    it, `up --nodes 3` starts node 4, which is balanced; `down` and `up` start the same three."""
    try:
        headrace.up("--nodes", "3")
        headrace.run("topic", "create", "t", "-p", "6", "-r", "2")
        headrace.run("produce", "t", data=b"".join(b"%d\n" % n for n in range(100)))
        _, err = headrace.run("node", "remove", "2", "--yes", "--delete-data")
        assert "`headrace up` does not start it" in err
        assert names(headrace) == ["node-1", "node-3"]
        assert set(replicas(headrace)) == {1, 3}
        data = headrace.home / "data" / "default"
        assert not list((data / "node-2").glob("*"))
        headrace.up()
        assert names(headrace) == ["node-1", "node-3"]

        headrace.up("--nodes", "3")
        assert names(headrace) == ["node-1", "node-3", "node-4"]
        assert replicas(headrace)[4] == 0
        headrace.run("balance", "--execute", "--sample", "0")
        assert replicas(headrace)[4] > 0
        headrace.run("down")
        headrace.up()
        assert names(headrace) == ["node-1", "node-3", "node-4"]
        out, _ = headrace.run("consume", "t", "-o", "beginning", "-e")
        assert sorted(map(int, out.split())) == list(range(100))
        headrace.run("down", "--delete-data", "--yes")
        headrace.wait_until_nothing_runs()
    finally:
        headrace.kill_all()
