"""Three controllers on real Ray: `up`, kill -9 of the active controller, restart."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from headrace_command import Headrace
from waiting import wait_for

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def headrace(tmp_path_factory: pytest.TempPathFactory, ray_address: str) -> Iterator[Headrace]:
    """A cluster of one storage node and three controllers."""
    command = Headrace(tmp_path_factory.mktemp("quorum"), ray_address)
    try:
        command.up("--nodes", "1", "--controllers", "3")
        yield command
        command.run("down", "--delete-data", "--yes")
        command.wait_until_nothing_runs()
    finally:
        command.kill_all()


def quorum_of(headrace: Headrace) -> Any:
    """The output of `headrace quorum status`."""
    return json.loads(headrace.run("-o", "json", "quorum", "status")[0])


def test_killed_controller_is_replaced(headrace: Headrace) -> None:
    """kill -9 of the leader: another one leads, topics are created, Ray restarts the old one."""
    before = quorum_of(headrace)
    assert [each["id"] for each in before["voters"]] == [1, 2, 3]
    facts = headrace.running()
    assert len(facts["controllers"]) == 3
    leader = facts["controller"]
    os.kill(leader["pid"], signal.SIGKILL)
    headrace.run("topic", "create", "after")
    after = quorum_of(headrace)
    assert after["leader_epoch"] > before["leader_epoch"]

    def is_whole() -> bool:
        found = headrace.status()
        pids = {each["name"]: each.get("pid") for each in found["controllers"]}
        return found["state"] == "running" and pids[leader["name"]] not in (None, leader["pid"])

    wait_for(is_whole, "the killed controller is back")
    wait_for(lambda: all(each["lag"] == 0 for each in quorum_of(headrace)["voters"]), "it has caught up")


def test_all_controllers_restart_with_their_data(headrace: Headrace) -> None:
    """Down and up without a count: the same quorum, the same topics."""
    headrace.run("topic", "create", "kept")
    cluster_id = headrace.running()["controller"]["cluster_id"]
    headrace.run("down")
    headrace.up()
    facts = headrace.running()
    assert facts["controller"]["cluster_id"] == cluster_id
    assert len(facts["controllers"]) == 3
    assert b"kept" in headrace.run("topic", "list")[0]


def test_actors_make_no_blocking_calls(headrace: Headrace) -> None:
    """Ray warns on stderr about a blocking call inside an async actor."""
    facts = headrace.running()
    servers = [*facts["controllers"], *facts["nodes"]]
    assert len(servers) == 4
    for server in servers:
        log = os.readlink(f"/proc/{server['pid']}/fd/2")
        text = Path(log).read_text(errors="replace")
        assert f"{server['name']} is ready on" in text
        assert "Using blocking" not in text, text
