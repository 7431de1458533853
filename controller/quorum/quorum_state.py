"""The `quorum-state` file: what a controller must remember beside the log to never repeat an epoch.

Shape: JSON with Kafka's names. Source: Kafka FileQuorumStateStore.java, QuorumStateData.json.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import msgspec

from ...storage_node.log.files import Files, read_file, write_file_atomically

FILE_NAME = "quorum-state"
NO_EPOCH = 0


class _Stored(msgspec.Struct, rename="camel"):
    """The fields of the file that are read back."""

    cluster_id: str
    leader_id: int
    leader_epoch: int

    def state(self) -> QuorumState:
        return QuorumState(self.cluster_id, self.leader_id, self.leader_epoch)


_decoder = msgspec.json.Decoder(_Stored)


class QuorumState(NamedTuple):
    """Who leads in which epoch, as this controller knows it."""

    cluster_id: str
    leader_id: int
    leader_epoch: int


def read_quorum_state(files: Files, directory: str) -> QuorumState | None:
    """The stored state; None if there is none, or if it is damaged: the epochs in the log then say from
    where to count on."""
    path = f"{directory}/{FILE_NAME}"
    if not files.exists(path):
        return None
    try:
        return _decoder.decode(read_file(files, path)).state()
    except msgspec.MsgspecError:
        return None


def write_quorum_state(files: Files, directory: str, state: QuorumState) -> None:
    """Replace the stored state; durable on return. Errors: KafkaStorageError."""
    facts = {
        "clusterId": state.cluster_id,
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": state.leader_id}],
        "data_version": 0,
    }
    write_file_atomically(files, directory, FILE_NAME, json.dumps(facts).encode())
