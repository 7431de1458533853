"""Keys of the audit topic. Kafka has none: its authorizer writes a log file."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.security.acls import AclOperation
from ...runtime.config import DAY, MAX_INT, MAX_LONG, Config, key

OPERATIONS = tuple(each.name for each in AclOperation if each > AclOperation.ALL)


@dataclass(frozen=True, kw_only=True)
class AuditConfig(Config):
    """The keys of a storage node for records of authorizer decisions."""

    audit_enable: bool = key(
        "audit.enable",
        True,
        live=True,
        doc="Write what the authorizer denies to the topic __headrace_audit. Without an authorizer the topic"
        " does not exist.",
    )
    audit_allowed_operations: tuple[str, ...] = key(
        "audit.allowed.operations",
        (),
        choices=OPERATIONS,
        live=True,
        doc="Operations that are written also when they are allowed, such as CREATE,DELETE,ALTER_CONFIGS.",
    )
    audit_buffer_max_events: int = key(
        "audit.buffer.max.events",
        10_000,
        low=1,
        high=MAX_INT,
        doc="Bound of different decisions that wait to be written; further ones are only counted.",
    )
    audit_topic_replication_factor: int = key(
        "audit.topic.replication.factor",
        3,
        low=1,
        high=32_767,
        doc="Replicas of __headrace_audit; the topic is not created with fewer nodes.",
    )
    audit_topic_retention_ms: int = key(
        "audit.topic.retention.ms",
        90 * DAY,
        low=-1,
        high=MAX_LONG,
        unit="ms",
        doc="retention.ms of __headrace_audit when it is created; -1 for no limit.",
    )
