"""The `quorum-state` file: what a controller must remember beside the log to never repeat an epoch or a vote.

Shape: JSON with Kafka's names. Source: Kafka FileQuorumStateStore.java, QuorumStateData.json.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import msgspec

from ...protocol.errors import KafkaStorageError
from ...protocol.model import NO_NODE
from ...storage_node.log.checkpoints import CorruptFileError, uuid_from_text, uuid_text
from ...storage_node.log.files import Files, read_file, write_file_atomically

FILE_NAME = "quorum-state"
NO_EPOCH = 0


class _Stored(msgspec.Struct, rename="camel"):
    """The fields of the file that are read back."""

    cluster_id: str
    leader_id: int
    leader_epoch: int
    voted_id: int = NO_NODE
    voted_directory_id: str = ""

    def state(self) -> QuorumState:
        directory_id = uuid_from_text(self.voted_directory_id) if self.voted_directory_id else b""
        return QuorumState(self.cluster_id, self.leader_id, self.leader_epoch, self.voted_id, directory_id)


_decoder = msgspec.json.Decoder(_Stored)


class DamagedStateError(KafkaStorageError):
    """The file is not what was written."""


class QuorumState(NamedTuple):
    """Who leads in which epoch, and for whom this controller has voted in it; -1 for nobody."""

    cluster_id: str
    leader_id: int
    leader_epoch: int
    voted_id: int = NO_NODE
    voted_directory_id: bytes = b""


def read_quorum_state(files: Files, directory: str) -> QuorumState | None:
    """The stored state; None if there is none, or if it is damaged: the epochs in the log then say from
    where to count on, but nothing says for whom this controller has voted."""
    try:
        return read_vote(files, directory)
    except DamagedStateError:
        return None


def read_vote(files: Files, directory: str) -> QuorumState | None:
    """The stored state; None if there is none. Errors: KafkaStorageError, also if it is damaged: whoever has
    forgotten a vote might give it twice."""
    path = f"{directory}/{FILE_NAME}"
    if not files.exists(path):
        return None
    try:
        return _decoder.decode(read_file(files, path)).state()
    except (msgspec.MsgspecError, CorruptFileError) as error:
        raise DamagedStateError(f"{path} is damaged: {error}") from error


def write_quorum_state(files: Files, directory: str, state: QuorumState) -> None:
    """Replace the stored state; durable on return. Errors: KafkaStorageError."""
    facts = {
        "clusterId": state.cluster_id,
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
        "votedDirectoryId": uuid_text(state.voted_directory_id) if state.voted_directory_id else "",
        "data_version": 1,
    }
    write_file_atomically(files, directory, FILE_NAME, json.dumps(facts).encode())
