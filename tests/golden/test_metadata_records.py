"""Records of the metadata log about security, and registrations, stay the same byte for byte.

`metadata_records.txt` was written by the version that introduced each of them. An older registration, without
features, is read, and a version that does not know features reads a newer one.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from headrace.protocol.metadata import records as r
from headrace.protocol.metadata.namespaces import Namespace
from headrace.protocol.model import FeatureRange
from headrace.protocol.security.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from headrace.protocol.security.scram import ScramCredential, ScramMechanism
from headrace.protocol.security.tokens import DelegationToken

GOLDEN = {
    name: bytes.fromhex(data)
    for name, data in map(
        str.split, (Path(__file__).parent / "metadata_records.txt").read_text().splitlines()
    )
}
RULE = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.PREFIXED,
    "Role:readers",
    "10.0.0.0/8",
    AclOperation.READ,
    AclPermission.ALLOW,
)
CREDENTIAL = ScramCredential(ScramMechanism.SCRAM_SHA_512, b"salt", b"stored", b"server", 4096)
TOKEN = DelegationToken("id", "User:o", "User:q", ("User:r",), 1, 9, 5)
REGISTRATION = r.RegisterBrokerRecord(1, b"i" * 16, "h", 9000, None, (b"d" * 16,), 7)
RECORDS: dict[str, r.MetadataRecord] = {
    "acl": r.AccessControlEntryRecord(RULE),
    "remove-acl": r.RemoveAccessControlEntryRecord(RULE),
    "scram": r.UserScramCredentialRecord("alice", CREDENTIAL),
    "remove-scram": r.RemoveUserScramCredentialRecord("alice", ScramMechanism.SCRAM_SHA_256),
    "token": r.DelegationTokenRecord(TOKEN),
    "remove-token": r.RemoveDelegationTokenRecord("id"),
    "role": r.RoleRecord("readers"),
    "remove-role": r.RemoveRoleRecord("readers"),
    "member": r.RoleMemberRecord("readers", "User:alice"),
    "remove-member": r.RemoveRoleMemberRecord("readers", "User:alice"),
    "namespace": r.NamespaceRecord(Namespace("shop.", 5, -1, "sellers")),
    "remove-namespace": r.RemoveNamespaceRecord("shop."),
    "feature": r.FeatureLevelRecord("security.version", 2),
    "registration": msgspec.structs.replace(REGISTRATION, features=(FeatureRange("security.version", 0, 2),)),
}


class OldRegistration(msgspec.Struct, array_like=True, frozen=True, tag="RegisterBroker"):
    """The registration of a version that did not know features."""

    node_id: int
    incarnation_id: bytes
    host: str
    port: int
    rack: str | None
    log_dir_ids: tuple[bytes, ...]
    broker_epoch: int
    is_fenced: bool = True
    in_controlled_shutdown: bool = False
    previous_epoch: int = -1
    listeners: tuple[str, ...] = ()
    offline_replicas: tuple[tuple[bytes, int], ...] = ()


def test_every_kind_is_here() -> None:
    assert GOLDEN.keys() == RECORDS.keys() | {"registration-without-features"}


@pytest.mark.parametrize("name", RECORDS)
def test_bytes_stay_the_same(name: str) -> None:
    assert msgspec.msgpack.encode(RECORDS[name]) == GOLDEN[name]
    assert msgspec.msgpack.decode(GOLDEN[name], type=r.MetadataRecord) == RECORDS[name]


def test_registrations_of_older_and_newer_versions_are_read() -> None:
    older = GOLDEN["registration-without-features"]
    assert msgspec.msgpack.decode(older, type=r.MetadataRecord) == REGISTRATION
    newer = msgspec.msgpack.decode(GOLDEN["registration"], type=OldRegistration)
    assert msgspec.msgpack.encode(newer) == older
