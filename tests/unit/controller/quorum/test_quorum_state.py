"""The quorum-state file: stored whole, and refused when damaged."""

from __future__ import annotations

import json

import pytest
from headrace.controller.quorum.quorum_state import (
    FILE_NAME,
    QuorumState,
    read_quorum_state,
    write_quorum_state,
)
from headrace.protocol.errors import KafkaStorageError
from headrace.runtime.files.files_io import OsFiles

STATE = QuorumState("cluster", 1, 7)


def test_there_and_back(tmp_path) -> None:
    """What was written is read; Kafka's names are in the file; nothing is there before."""
    directory = str(tmp_path)
    assert read_quorum_state(OsFiles(), directory) is None
    write_quorum_state(OsFiles(), directory, QuorumState("cluster", 1, 6))
    write_quorum_state(OsFiles(), directory, STATE)
    assert read_quorum_state(OsFiles(), directory) == STATE
    facts = json.loads((tmp_path / FILE_NAME).read_text())
    assert (facts["clusterId"], facts["leaderEpoch"], facts["data_version"]) == ("cluster", 7, 1)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"clusterId":"c","leaderId":1,"leaderEpoch":"x"}']
)
def test_damage_is_refused(tmp_path, content) -> None:
    """Whoever has forgotten a vote might give it twice."""
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(KafkaStorageError, match="is damaged"):
        read_quorum_state(OsFiles(), str(tmp_path))
