"""The `quorum-state` file: what a controller must remember beside the log to never repeat an epoch or a vote.

Shape: JSON with Kafka's names. Source: Kafka FileQuorumStateStore.java, QuorumStateData.json.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import msgspec

from ...protocol.errors import KafkaStorageError
from ...protocol.model import NO_NODE
from ...runtime.files.file_layer import Files, read_file, write_file_atomically
from ...storage_node.log.checkpoints import CorruptFileError, uuid_from_text, uuid_text

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


class QuorumState(NamedTuple):
    """Who leads in which epoch, and for whom this controller has voted in it; -1 for nobody."""

    cluster_id: str
    leader_id: int
    leader_epoch: int
    voted_id: int = NO_NODE
    voted_directory_id: bytes = b""


def read_quorum_state(files: Files, directory: str) -> QuorumState | None:
    """The stored state; None if there is none. Errors: KafkaStorageError, also if it is damaged: whoever has
    forgotten a vote might give it twice."""
    path = f"{directory}/{FILE_NAME}"
    if not files.exists(path):
        return None
    try:
        return _decoder.decode(read_file(files, path)).state()
    except (msgspec.MsgspecError, CorruptFileError) as error:
        raise lost_vote(directory, f"is damaged ({error})") from error


def lost_vote(directory: str, what: str) -> KafkaStorageError:
    """Why a controller does not start, and what its operator has to do."""
    metadata_dir = directory.rpartition("/")[0]
    return KafkaStorageError(
        f"{directory}/{FILE_NAME} {what}: nobody knows for whom this controller has voted, and it must not "
        f"vote twice. Where other controllers are a majority, empty {metadata_dir} and start it with "
        f"controller.quorum.auto.join.enable=true: it joins again and copies the log. If it is the only one, "
        f'write {{"clusterId":"","leaderId":-1,"leaderEpoch":E}} into the file, E above every epoch that '
        f"`headrace log dump` shows in its log"
    )


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
