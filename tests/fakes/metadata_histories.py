"""Random valid sequences of metadata records, as a controller may write them."""

from headrace.protocol.metadata.image import TOPIC_RESOURCE, MetadataImage
from headrace.protocol.metadata.namespaces import Namespace
from headrace.protocol.metadata.records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    FormatRecord,
    MetadataRecord,
    NamespaceRecord,
    NextNodeIdRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveNamespaceRecord,
    RemoveRoleMemberRecord,
    RemoveRoleRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    RoleMemberRecord,
    RoleRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from headrace.protocol.metadata.replay import replay
from headrace.protocol.model import FeatureRange
from headrace.protocol.security.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from headrace.protocol.security.scram import ScramCredential, ScramMechanism
from headrace.protocol.security.tokens import DelegationToken
from hypothesis import strategies as st

NAMES = ("a", "b", "c.d", "long-name")
ENTITIES = (
    (("user", None),),
    (("user", "u"),),
    (("client-id", "c"), ("user", None)),
    (("client-id", None), ("user", "u")),
)
NODES = st.sampled_from([None, (), (0,), (0, 1)])


def _choices(image: MetadataImage, offset: int) -> list[str]:
    kinds = ["register", "next_id", "no_op", "quota", "quota", "feature", "acl", "acl", "scram", "token"]
    kinds += ["remove_acl"] if image.acls else []
    kinds += ["remove_scram"] if image.scram_credentials else []
    kinds += ["remove_token"] if image.delegation_tokens else []
    kinds += ["role", "namespace"]
    kinds += ["remove_namespace"] if image.namespaces else []
    kinds += ["member", "member"] if image.roles else []
    kinds += ["remove_member"] if image.role_members else []
    kinds += ["remove_role"] if _empty_roles(image) else []
    if image.brokers:
        kinds += ["fence", "unfence", "unregister", "broker_change"]
    if len(image.topics) < len(NAMES):
        kinds += ["topic"] * 3
    if image.topics:
        kinds += ["partition"] * 3 + ["change"] * 3 + ["remove", "config", "config"]
    return kinds


def _record(draw: st.DrawFn, image: MetadataImage, offset: int) -> MetadataRecord:
    kind = draw(st.sampled_from(_choices(image, offset)))
    if kind == "register":
        return _registration(draw, offset)
    if kind == "next_id":
        return NextNodeIdRecord(draw(st.integers(1001, 1010)))
    if kind in ("fence", "unfence", "unregister", "broker_change"):
        return _about_broker(draw, image, kind)
    if kind == "topic":
        name = draw(st.sampled_from([name for name in NAMES if name not in image.topics]))
        return TopicRecord(name, offset.to_bytes(16, "big"))
    if kind in ("no_op", "quota", "feature"):
        return _of_cluster(draw, kind)
    about = _ABOUT.get(kind.removeprefix("remove_"), _about_topic)
    return about(draw, image, kind)


def _of_cluster(draw: st.DrawFn, kind: str) -> MetadataRecord:
    if kind == "no_op":
        return NoOpRecord()
    if kind == "feature":
        return FeatureLevelRecord(draw(st.sampled_from(["f", "g"])), draw(st.integers(0, 2)))
    key, value = draw(st.sampled_from(["a", "b"])), draw(st.sampled_from([None, 1.0, 2.5]))
    return ClientQuotaRecord(draw(st.sampled_from(ENTITIES)), key, value)


def _of_security(draw: st.DrawFn, image: MetadataImage, kind: str) -> MetadataRecord:
    if kind == "remove_acl":
        return RemoveAccessControlEntryRecord(draw(st.sampled_from(sorted(image.acls))))
    if kind == "remove_scram":
        return RemoveUserScramCredentialRecord(*draw(st.sampled_from(sorted(image.scram_credentials))))
    if kind == "remove_token":
        return RemoveDelegationTokenRecord(draw(st.sampled_from(sorted(image.delegation_tokens))))
    name = draw(st.sampled_from(["a", "b"]))
    if kind == "scram":
        mechanism = draw(st.sampled_from([ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512]))
        keys = draw(st.binary(max_size=2))
        return UserScramCredentialRecord(name, ScramCredential(mechanism, b"salt", keys, keys, 4096))
    if kind == "token":
        renewers = draw(st.sampled_from([(), ("User:r",)]))
        expiry_ms = draw(st.integers(1, 9))
        return DelegationTokenRecord(DelegationToken(name, "User:o", "User:q", renewers, 1, 9, expiry_ms))
    pattern_type = draw(st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]))
    permission = draw(st.sampled_from([AclPermission.ALLOW, AclPermission.DENY]))
    return AccessControlEntryRecord(
        AclBinding(ResourceType.TOPIC, name, pattern_type, "User:u", "*", AclOperation.READ, permission)
    )


def _empty_roles(image: MetadataImage) -> list[str]:
    return sorted(image.roles.keys() - {role for role, _ in image.role_members})


def _of_roles(draw: st.DrawFn, image: MetadataImage, kind: str) -> MetadataRecord:
    if kind == "remove_role":
        return RemoveRoleRecord(draw(st.sampled_from(_empty_roles(image))))
    if kind == "remove_member":
        return RemoveRoleMemberRecord(*draw(st.sampled_from(sorted(image.role_members))))
    if kind == "remove_namespace":
        return RemoveNamespaceRecord(draw(st.sampled_from(sorted(image.namespaces))))
    if kind == "member":
        member = draw(st.sampled_from(["User:a", "User:b"]))
        return RoleMemberRecord(draw(st.sampled_from(sorted(image.roles))), member)
    name = draw(st.sampled_from(["r", "s"]))
    if kind == "role":
        return RoleRecord(name)
    limits = st.integers(-1, 2)
    return NamespaceRecord(Namespace(name, draw(limits), draw(limits), draw(st.sampled_from(["", "r"]))))


def _about_broker(draw: st.DrawFn, image: MetadataImage, kind: str) -> MetadataRecord:
    broker = image.brokers[draw(st.sampled_from(sorted(image.brokers)))]
    if kind == "broker_change":
        flag = draw(st.sampled_from([None, False, True]))
        offline = draw(st.sampled_from([None, (), ((b"t" * 16, 0), (b"t" * 16, 2))]))
        return BrokerRegistrationChangeRecord(broker.node_id, broker.broker_epoch, flag, offline)
    makers = {
        "fence": FenceBrokerRecord,
        "unfence": UnfenceBrokerRecord,
        "unregister": UnregisterBrokerRecord,
    }
    return makers[kind](broker.node_id, broker.broker_epoch)


def _registration(draw: st.DrawFn, offset: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        node_id=draw(st.integers(0, 3)),
        incarnation_id=draw(st.binary(min_size=16, max_size=16)),
        host=draw(st.sampled_from(["h1", "h2"])),
        port=draw(st.integers(1, 65535)),
        rack=draw(st.sampled_from([None, "r1"])),
        log_dir_ids=tuple(draw(st.lists(st.binary(min_size=16, max_size=16), max_size=2))),
        broker_epoch=offset,
        is_fenced=draw(st.booleans()),
        in_controlled_shutdown=draw(st.booleans()),
        features=draw(st.sampled_from([(), (FeatureRange("f", 0, 2),)])),
    )


def _about_topic(draw: st.DrawFn, image: MetadataImage, kind: str) -> MetadataRecord:
    topic = image.topics[draw(st.sampled_from(sorted(image.topics)))]
    if kind == "remove":
        return RemoveTopicRecord(topic.topic_id)
    if kind == "config":
        value = draw(st.sampled_from([None, "1", "2"]))
        return ConfigRecord(TOPIC_RESOURCE, topic.name, draw(st.sampled_from(["x", "y"])), value)
    if kind == "change" and topic.partitions:
        return PartitionChangeRecord(
            topic_id=topic.topic_id,
            partition=draw(st.integers(0, len(topic.partitions) - 1)),
            leader=draw(st.sampled_from([None, -1, 0, 1])),
            isr=draw(NODES),
            replicas=draw(NODES),
            adding_replicas=draw(NODES),
            removing_replicas=draw(NODES),
            elr=draw(NODES),
            last_known_elr=draw(NODES),
            leader_recovery_state=draw(st.sampled_from([None, 0, 1])),
        )
    return PartitionRecord(topic.topic_id, len(topic.partitions), (0, 1), (0, 1), 0, 0, 0)


_ABOUT = dict.fromkeys(("acl", "scram", "token"), _of_security) | dict.fromkeys(
    ("role", "member", "namespace"), _of_roles
)


@st.composite
def histories(draw: st.DrawFn, max_size: int = 40) -> list[MetadataRecord]:
    """Records from offset 0, each valid after the previous ones."""
    records: list[MetadataRecord] = [FormatRecord("cluster")]
    image, _ = replay(MetadataImage(), 0, records)
    for offset in range(1, draw(st.integers(1, max_size))):
        record = _record(draw, image, offset)
        records.append(record)
        image, _ = replay(image, offset, [record])
    return records
