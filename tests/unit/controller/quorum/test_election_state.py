"""The quorum-state file: round trip, and rejected when damaged."""

import json

import pytest
from headrace.controller.quorum.election_state import (
    FILE_NAME,
    ElectionState,
    read_election_state,
    write_election_state,
)
from headrace.protocol.errors import KafkaStorageError
from headrace.runtime.files.files_io import OsFiles

STATE = ElectionState("cluster", 1, 7)


def test_round_trip(tmp_path) -> None:
    """The file has Kafka's field names; without a file there is no state."""
    directory = str(tmp_path)
    assert read_election_state(OsFiles(), directory) is None
    write_election_state(OsFiles(), directory, ElectionState("cluster", 1, 6))
    write_election_state(OsFiles(), directory, STATE)
    assert read_election_state(OsFiles(), directory) == STATE
    facts = json.loads((tmp_path / FILE_NAME).read_text())
    assert (facts["clusterId"], facts["leaderEpoch"], facts["data_version"]) == ("cluster", 7, 1)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"clusterId":"c","leaderId":1,"leaderEpoch":"x"}']
)
def test_damaged_file_is_rejected(tmp_path, content) -> None:
    """A controller that forgets its vote might vote twice."""
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(KafkaStorageError, match="is damaged"):
        read_election_state(OsFiles(), str(tmp_path))
