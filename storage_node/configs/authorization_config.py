"""Keys of authorization and of delegation tokens at a node, with Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.errors import ConfigError
from ...protocol.security.authorizer import parse_super_users
from ...runtime.config import Config, key

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, kw_only=True)
class AuthorizationConfig(Config):
    """Keys of authorization."""

    authorizer_class_name: str = key(
        "authorizer.class.name",
        "",
        choices=("", STANDARD_AUTHORIZER),
        doc="Kafka's StandardAuthorizer: requests need rules, which `headrace acl` changes. Empty: every"
        " client may do everything.",
    )
    super_users: str = key(
        "super.users",
        "",
        doc="Principals that may do everything, as User:alice;User:bob.",
    )
    allow_everyone_if_no_acl_found: bool = key(
        "allow.everyone.if.no.acl.found",
        False,
        doc="Whether everyone may use a resource that no rule is about.",
    )
    authorizer_metadata_max_age_ms: int = key(
        "authorizer.metadata.max.age.ms",
        60_000,
        low=-1,
        unit="ms",
        doc="A node whose heartbeats no controller has answered for this long may lack removals of rules"
        " since then: it refuses the requests of all but super.users, as retriable. Longer than an election"
        " of controllers; -1: never, as in Kafka.",
    )
    delegation_token_secret_key: str = key(
        "delegation.token.secret.key",
        "",
        sensitive=True,
        doc="Key of the HMACs of delegation tokens, the same on all servers; empty: there are no tokens.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            parse_super_users(self.super_users)
        except ValueError as error:
            raise ConfigError(f"super.users: {error}") from None
