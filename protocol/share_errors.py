"""Wire errors of share groups. Import them from errors.py. Source: Kafka Errors.java."""

from __future__ import annotations

from .client_errors import KafkaError


class InvalidRecordStateError(KafkaError):
    """The record is not acquired by this member: its lock has expired, or it has a result already."""

    code = 121


class ShareSessionNotFoundError(KafkaError):
    """The node does not know this share session."""

    code = 122
    retriable = True


class InvalidShareSessionEpochError(KafkaError):
    """The epoch of the share session is not the expected one."""

    code = 123
    retriable = True


class FencedStateEpochError(KafkaError):
    """The share coordinator has a newer state epoch of the share-partition."""

    code = 124


class ShareSessionLimitReachedError(KafkaError):
    """The node serves as many share sessions as it may."""

    code = 133
    retriable = True
