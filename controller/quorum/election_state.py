"""The `quorum-state` file: epoch and vote, which a controller must never forget.

Shape: JSON with Kafka's names. Source: Kafka FileQuorumStateStore.java, ElectionState.java,
QuorumStateData.json.
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
    """The fields of the file."""

    cluster_id: str
    leader_id: int
    leader_epoch: int
    voted_id: int = NO_NODE
    voted_directory_id: str = ""

    def state(self) -> ElectionState:
        directory_id = uuid_from_text(self.voted_directory_id) if self.voted_directory_id else b""
        return ElectionState(self.cluster_id, self.leader_id, self.leader_epoch, self.voted_id, directory_id)


_decoder = msgspec.json.Decoder(_Stored)


class ElectionState(NamedTuple):
    """The epoch, its leader and the vote of this controller in it; -1 for none."""

    cluster_id: str
    leader_id: int
    leader_epoch: int
    voted_id: int = NO_NODE
    voted_directory_id: bytes = b""


def read_election_state(files: Files, directory: str) -> ElectionState | None:
    """The stored state; None if there is none. Errors: KafkaStorageError, also if the file is damaged: a
    controller that forgets its vote might vote twice."""
    path = f"{directory}/{FILE_NAME}"
    if not files.exists(path):
        return None
    try:
        return _decoder.decode(read_file(files, path)).state()
    except (msgspec.MsgspecError, CorruptFileError) as error:
        raise lost_vote(directory, f"is damaged ({error})") from error


def lost_vote(directory: str, problem: str) -> KafkaStorageError:
    """The error of a controller that cannot start, with the remedy."""
    metadata_dir = directory.rpartition("/")[0]
    return KafkaStorageError(
        f"{directory}/{FILE_NAME} {problem}: the vote of this controller is lost, and it must not vote "
        f"twice. If the other controllers are a majority, empty {metadata_dir} and start with "
        f"controller.quorum.auto.join.enable=true: the controller joins again and copies the log. If it is "
        f'the only one, write {{"clusterId":"","leaderId":-1,"leaderEpoch":E}} into the file, with E above '
        f"every epoch that `headrace log dump` shows in its log"
    )


def write_election_state(files: Files, directory: str, state: ElectionState) -> None:
    """Replace the stored state; durable on return. Errors: KafkaStorageError."""
    fields = {
        "clusterId": state.cluster_id,
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
        "votedDirectoryId": uuid_text(state.voted_directory_id) if state.voted_directory_id else "",
        "data_version": 1,
    }
    write_file_atomically(files, directory, FILE_NAME, json.dumps(fields).encode())
