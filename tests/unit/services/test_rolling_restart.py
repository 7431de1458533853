"""The rolling restart: its order, what it waits for, and what it reports."""

from typing import Any

import pytest
from headrace.protocol.security.server_keys import CONTROLLER, NODE, ServerName
from headrace.services.rolling_restart import RestartError, RollingRestart

FIRST, SECOND = ServerName(CONTROLLER, 1), ServerName(CONTROLLER, 2)
ONE, TWO = ServerName(NODE, 1), ServerName(NODE, 2)


class Servers:
    """Two controllers, the first leads, and two nodes. `behind`: reads of the statuses until replicas are in
    sync after a restart."""

    def __init__(self, behind: int = 0) -> None:
        self.restarted: list[ServerName] = []
        self.pids = {FIRST: 1, SECOND: 2, ONE: 3, TWO: 4}
        self.dead: set[ServerName] = set()
        self._behind, self._left = behind, 0

    def statuses(self) -> dict[ServerName, dict[str, Any]]:
        self._left = max(0, self._left - 1)
        found: dict[ServerName, dict[str, Any]] = {}
        for name, pid in self.pids.items():
            is_node = name.kind == NODE
            facts: dict[str, Any] = {
                "pid": pid,
                "version": "9.9",
                "state": "active" if is_node else "running",
            }
            if is_node:
                facts["metrics"] = {"UnderReplicatedPartitions": self._left}
            else:
                role = "leader" if name == FIRST else "follower"
                facts["quorum"] = {"role": role, "high_watermark": 5, "log_end_offset": 5}
            found[name] = {"state": "silent"} if name in self.dead else facts
        return found

    def restart(self, name: ServerName) -> None:
        assert not self._left, "replicas lag"
        self.restarted.append(name)
        self.pids[name] += 100
        self._left = self._behind


def test_servers_are_restarted_one_by_one_and_replicas_are_waited_for() -> None:
    """Controllers first, the leader last of them; the report has the versions."""
    servers, lines = Servers(behind=3), list[str]()
    RollingRestart(servers, lines.append, 5.0).run()
    assert servers.restarted == [SECOND, FIRST, ONE, TWO]
    assert lines[0] == "controller-2 runs headrace 9.9 (1/4)"


def test_only_named_servers_are_restarted() -> None:
    """In the order of restarts; an unknown name is an error before anything is restarted."""
    servers = Servers()
    RollingRestart(servers, str, 5.0).run([TWO, FIRST])
    assert servers.restarted == [FIRST, TWO]
    with pytest.raises(RestartError, match="the cluster has no node-7: it has controller-1"):
        RollingRestart(servers, str, 5.0).run([ServerName(NODE, 7)])
    assert len(servers.restarted) == 2


def test_nothing_is_restarted_while_a_server_is_down() -> None:
    servers = Servers()
    servers.dead.add(TWO)
    with pytest.raises(RestartError, match="nothing was restarted, but node-2 does not serve: silent"):
        RollingRestart(servers, str, 0.3).run()
    assert servers.restarted == []


def test_server_that_keeps_its_process_is_an_error() -> None:
    """The call was lost, or the process hangs: the next server is not restarted."""
    servers = Servers()
    servers.restart = servers.restarted.append  # type: ignore[method-assign]
    with pytest.raises(RestartError, match="controller-2 was restarted, but its old process still runs"):
        RollingRestart(servers, str, 0.3).run()
    assert servers.restarted == [SECOND]
