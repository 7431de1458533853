"""The authorizer of a node: the rules of its metadata image under its configuration. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError
from ...protocol.security.authorizer import RuleAuthorizer, parse_super_users
from ...protocol.security.principals import ANONYMOUS
from ...protocol.security.rule_index import RuleIndex
from ..configs.gateway_config import parse_listeners, security_of
from ..configs.listener_security import SecurityProtocol
from ..links.known_metadata import KnownMetadata

if TYPE_CHECKING:
    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ..configs.authorization_config import AuthorizationConfig
    from ..configs.node_config import NodeConfig


def check_open_native_plane(config: NodeConfig) -> None:
    """Rules need a native plane on which servers are known. On PLAINTEXT all native clients and the other
    servers are User:ANONYMOUS: without rights replication would fail, and anyone could ask the controllers.

    Errors: ConfigError, unless the config says that everyone may do everything there.
    """
    if config.is_encrypted or not config.authorizer_class_name or config.allow_everyone_if_no_acl_found:
        return
    if str(ANONYMOUS) not in parse_super_users(config.super_users):
        raise ConfigError(
            "authorizer.class.name needs native.security.protocol=SSL or SASL_SSL on all servers: with"
            f" PLAINTEXT the other servers and all native clients are {ANONYMOUS}."
            f" super.users={ANONYMOUS} leaves the native plane open to every process that can connect"
        )


def open_native_plane(config: NodeConfig) -> str:
    """A warning about a native plane without the security that the listeners for Kafka clients have; empty
    if there is none to give."""
    if config.is_encrypted:
        return ""
    secured = [name for name in parse_listeners("listeners", config.listeners) if _is_secured(config, name)]
    if not secured and not config.authorizer_class_name:
        return ""
    kept = f"the listeners {', '.join(secured)} are secured" if secured else "there are rules"
    return (
        f"{kept}, but native.security.protocol is PLAINTEXT: every process that can connect to"
        " listener.port or to a controller may read and change everything; set SSL or SASL_SSL on all servers"
    )


def _is_secured(config: NodeConfig, listener: str) -> bool:
    return security_of(config, listener).protocol is not SecurityProtocol.PLAINTEXT


class NodeAuthorization:
    """`authorizer` is one object for the life of the node, None if none is configured. It decides once the
    node has the metadata, and applies each change of rules with its image.

    Invariant: after `note_time` it decides only if the image has every rule change that is older than
    `authorizer.metadata.max.age.ms`.
    """

    def __init__(self, config: AuthorizationConfig) -> None:
        self.authorizer: RuleAuthorizer | None = None
        self.known = KnownMetadata()  # replaced by that of the node's membership
        self._max_age_ms = config.authorizer_metadata_max_age_ms
        self._is_complete = False
        if config.authorizer_class_name:
            self.authorizer = RuleAuthorizer(
                RuleIndex(),
                parse_super_users(config.super_users),
                allow_if_no_rules=config.allow_everyone_if_no_acl_found,
                is_ready=False,
            )

    def follow(self, image: MetadataImage, delta: MetadataDelta | None, *, is_complete: bool) -> None:
        """The node has a new image; without a delta any rule may have changed. Until an image `is_complete`,
        the authorizer makes no decisions."""
        if self.authorizer is None:
            return
        rules = self.authorizer.rules
        changed = tuple(rules.keys() ^ image.acls.keys()) if delta is None else delta.acls
        if changed:
            self.authorizer.change(
                added=[rule for rule in changed if rule in image.acls],
                removed=[rule for rule in changed if rule not in image.acls],
            )
        known = self.authorizer.roles.keys()
        moved = tuple(known ^ image.role_members.keys()) if delta is None else delta.role_members
        if moved:
            self.authorizer.change_members(
                added=[each for each in moved if each in image.role_members],
                removed=[each for each in moved if each not in image.role_members],
            )
        self._is_complete = self._is_complete or is_complete

    def note_time(self, now_ms: int) -> None:
        """Check the age of the metadata before a decision."""
        if self.authorizer is not None:
            is_current = self._max_age_ms < 0 or now_ms - self.known.until_ms <= self._max_age_ms
            self.authorizer.is_ready = self._is_complete and is_current
