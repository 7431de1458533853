"""Allowed operations in responses, for clients that ask for them: without an authorizer, all operations.
Pure.

A bit set over Kafka's AclOperation. Source: Kafka AclEntry.supportedOperations,
AuthHelper.authorizedOperations without an authorizer.
"""

from __future__ import annotations

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = (1 << code for code in (3, 4, 5, 6, 7, 8))
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = (
    1 << code for code in (9, 10, 11, 12)
)
_CONFIGS = _DESCRIBE_CONFIGS | _ALTER_CONFIGS

NOT_ASKED = -(2**31)
OF_TOPIC = _READ | _WRITE | _CREATE | _DESCRIBE | _DELETE | _ALTER | _CONFIGS
OF_GROUP = _READ | _DESCRIBE | _DELETE | _CONFIGS
OF_CLUSTER = _CREATE | _CLUSTER_ACTION | _CONFIGS | _IDEMPOTENT_WRITE | _ALTER | _DESCRIBE


def allowed(operations: int, *, is_asked: bool) -> int:
    """The bits, or Kafka's "not requested" value."""
    return operations if is_asked else NOT_ASKED
