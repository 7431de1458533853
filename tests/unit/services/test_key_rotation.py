"""The rotation of all servers' keys, with servers that read the folder as real ones do."""

from pathlib import Path
from typing import Any

import pytest
from headrace.protocol.security.server_keys import CONTROLLER, NODE, ServerName
from headrace.services.key_rotation import KeyRotation, RotationError, missing
from headrace.services.server_keys_io import ServerKeyFolder

CONTROLLERS = [ServerName(CONTROLLER, number) for number in (1, 2, 3)]
NODES = [ServerName(NODE, number) for number in (1, 2)]
NAMES = [*CONTROLLERS, *NODES]


class Interrupted(Exception):
    """Ctrl-C."""


class FakeServers:
    """Each has the key that its file had at its last start; `folder_of` are copies on other machines."""

    def __init__(self, folder: ServerKeyFolder) -> None:
        self.folder = folder
        self.running = {name: folder.public_key(name) for name in NAMES}
        self.restarted: list[ServerName] = []
        self.trusted: dict[ServerName, str] = {}
        self.changed: dict[ServerName, dict[str, Any]] = {}
        self.keeps_key: set[ServerName] = set()
        self.interrupted_at: ServerName | None = None

    def statuses(self) -> dict[ServerName, dict[str, Any]]:
        return {name: {**self._status(name), **self.changed.get(name, {})} for name in NAMES}

    def _status(self, name: ServerName) -> dict[str, Any]:
        key = self.running[name]
        trusted = self.folder.trusted()
        assert trusted.owner(bytes.fromhex(key)) == name, "a running key is always trusted by all"
        quorum = {"role": "leader" if name.id == 2 else "follower", "high_watermark": 5, "log_end_offset": 5}
        facts = {"quorum": quorum} if name in CONTROLLERS else {"metrics": {"UnderReplicatedPartitions": 0}}
        return {
            "state": "running" if name in CONTROLLERS else "active",
            "security": {
                "public_key": key,
                "trusted_keys": self.trusted.get(name, trusted.fingerprint),
            },
            **facts,
        }

    def restart(self, name: ServerName) -> None:
        self.restarted.append(name)
        if name not in self.keeps_key:
            self.running[name] = self.folder.public_key(name)
        if name == self.interrupted_at:
            raise Interrupted


@pytest.fixture
def servers(tmp_path: Path) -> FakeServers:
    folder = ServerKeyFolder(tmp_path)
    folder.make(NAMES)
    return FakeServers(folder)


def rotate(servers: FakeServers) -> list[str]:
    lines: list[str] = []
    KeyRotation(servers.folder, servers, lines.append, 0.0).run()
    return lines


def test_each_server_is_restarted_once_the_active_controller_behind_the_others(servers: FakeServers) -> None:
    """Then only the new keys are trusted."""
    before = set(servers.running.values())
    lines = rotate(servers)
    assert servers.restarted == [CONTROLLERS[0], CONTROLLERS[2], CONTROLLERS[1], *NODES]
    assert lines[:2] == ["controller-1 has a new key (1/5)", "controller-3 has a new key (2/5)"]
    assert not before & set(servers.running.values())
    trusted = servers.folder.trusted()
    assert {key.hex() for key in trusted.keys_of()} == set(servers.running.values())
    assert not list(servers.folder.folder.glob("*.next.key"))


@pytest.mark.parametrize("at", NAMES)
def test_an_interrupted_rotation_is_continued(servers: FakeServers, at: ServerName) -> None:
    """No server is restarted twice, and none gets a second new key. The first one may be a new rotation."""
    servers.interrupted_at = at
    with pytest.raises(Interrupted):
        rotate(servers)
    servers.interrupted_at = None
    kept = {name: servers.running[name] for name in servers.restarted}
    is_begun = at != CONTROLLERS[0]
    assert (rotate(servers)[0] == "continuing the rotation that was interrupted") == is_begun
    assert sorted(servers.restarted) == sorted(NAMES)
    assert kept.items() <= servers.running.items()
    assert len(servers.folder.trusted()) == len(NAMES)
    before = dict(servers.running)
    rotate(servers)  # the next one is a new rotation
    assert not set(before.values()) & set(servers.running.values())


def test_a_silent_server_stops_the_rotation_before_it_begins(servers: FakeServers) -> None:
    """It is named; no key was made."""
    servers.changed[NODES[1]] = {"state": "silent", "detail": "the actor died"}
    with pytest.raises(RotationError, match="node-2 does not serve: silent the actor died; run this command"):
        rotate(servers)
    assert servers.restarted == []
    assert len(servers.folder.trusted()) == len(NAMES)


def test_no_server_is_restarted_before_all_trust_the_new_keys(servers: FakeServers) -> None:
    """A folder that is not the same on all machines; copied, the rotation goes on."""
    servers.trusted[NODES[1]] = "another list"
    with pytest.raises(RotationError, match=r"node-2 did not read the new keys: copy .*trusted\.keys"):
        rotate(servers)
    assert servers.restarted == []
    servers.trusted.clear()
    assert len(rotate(servers)) == len(NAMES)


def test_server_restarted_with_its_old_key_is_reported(servers: FakeServers) -> None:
    """Its key file on another machine is another one; its old key stays trusted."""
    servers.keeps_key.add(NODES[0])
    with pytest.raises(RotationError, match=r"node-1 was restarted and has its old key: copy .*node-1\.key"):
        rotate(servers)
    servers.keeps_key.clear()
    rotate(servers)
    assert servers.restarted.count(NODES[0]) == 2


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        (NODES[0], {"metrics": {"UnderReplicatedPartitions": 3}}, "3 partitions have replicas"),
        (NODES[0], {"state": "fenced"}, "node-1 does not serve: fenced"),
        (
            CONTROLLERS[0],
            {"quorum": {"role": "follower", "high_watermark": 0, "log_end_offset": 4}},
            "controller-1 is behind",
        ),
        (CONTROLLERS[1], {"quorum": {"role": "candidate"}}, "not elected a leader"),
    ],
)
def test_no_server_is_restarted_while(
    servers: FakeServers, name: ServerName, change: dict[str, Any], text: str
) -> None:
    """Another one is not back."""
    assert missing(servers.statuses()) == ""
    servers.changed[name] = change
    assert text in missing(servers.statuses())
