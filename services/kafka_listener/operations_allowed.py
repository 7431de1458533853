"""What answers say of who may do what, to clients that ask for it: without security, all that there is. Pure.

A set of bits, one for each operation of Kafka's AclOperation; source: Kafka AclEntry.supportedOperations,
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
    """What is told."""
    return operations if is_asked else NOT_ASKED
