"""SASL on a PLAINTEXT listener, and the other apis of security. Pure. Source: Kafka KafkaApis.scala."""

from __future__ import annotations

from .acl_apis import ACL_APIS
from .sasl_apis import SASL_APIS
from .scram_apis import SCRAM_APIS
from .token_apis import TOKEN_APIS

SECURITY_APIS = (
    *SASL_APIS,
    *ACL_APIS,
    *TOKEN_APIS,
    *SCRAM_APIS,
)
