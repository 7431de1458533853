"""Feature levels: a request is applied as a whole or not at all. Pure.

Source: Kafka FeatureControlManager.java; KIP-584, 1022.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import (
    InvalidRequestError,
    InvalidUpdateVersionError,
    KafkaError,
    UnsupportedVersionError,
)
from ...protocol.messages.quotas import UpdateFeaturesResponse
from ...protocol.metadata.features import (
    OWN_RANGES,
    ROLES_LEVEL,
    RULES_LEVEL,
    SECURITY_VERSION,
    SUPPORTED,
    level_of,
    range_of,
)
from ...protocol.metadata.records import FeatureLevelRecord
from .decision import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sized

    from ...protocol.messages.quotas import FeatureUpdate, UpdateFeaturesRequest
    from ...protocol.metadata.image import MetadataImage
    from ...protocol.model import FeatureRange

    # Levels that the other voters support, by their ids; None if a voter has not reported them yet.
    Voters = Mapping[int, tuple[FeatureRange, ...] | None]

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
MAX_UPDATES = 100  # Bound: of one request; many times the features that there are
_MAX_NAME = 100


def decide_features(image: MetadataImage, request: UpdateFeaturesRequest, voters: Voters) -> Decision:
    """An error of one feature refuses all. `voters`: what the other voters of the quorum support."""
    try:
        if len(request.updates) > MAX_UPDATES:
            raise InvalidRequestError(f"{len(request.updates)} features, at most {MAX_UPDATES}")
        names = [update.feature for update in request.updates]
        if len(set(names)) != len(names):
            raise InvalidRequestError("a feature is named twice")
        for update in request.updates:
            _check(image, update, voters)
    except KafkaError as error:
        return Decision((), UpdateFeaturesResponse(error.code, str(error)))
    records = [
        FeatureLevelRecord(update.feature, update.level)
        for update in request.updates
        if level_of(image, update.feature) != update.level
    ]
    if request.validate_only:
        records.clear()
    return Decision(tuple(records), UpdateFeaturesResponse(metadata_offset=image.offset + len(records)))


def _check(image: MetadataImage, update: FeatureUpdate, voters: Voters) -> None:
    """Errors: InvalidUpdateVersionError."""
    name, level, now = update.feature, update.level, level_of(image, update.feature)
    low, high = SUPPORTED.get(name, (1, 0))
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        why = f"there is no upgrade type {update.upgrade_type}"
    elif not low <= level <= high:
        why = "there is no such feature" if name not in SUPPORTED else f"levels are {low} to {high}"
    elif level < now and update.upgrade_type == UPGRADE:
        why = f"that is below level {now}, and no downgrade was asked for"
    elif level > now and update.upgrade_type != UPGRADE:
        why = f"that is above level {now}, and a downgrade was asked for"
    elif level != now:
        why = _fault_of_servers(image, update, voters) or _fault_of_records(image, update)
    else:
        why = ""
    if why:
        raise InvalidUpdateVersionError(f"level {level} of feature {name[:_MAX_NAME]!r}: {why}")


def _fault_of_servers(image: MetadataImage, update: FeatureUpdate, voters: Voters) -> str:
    """The first server that does not support the level, or nothing."""
    servers: list[tuple[str, tuple[FeatureRange, ...] | None]] = [
        (f"node {node_id}", broker.features) for node_id, broker in sorted(image.brokers.items())
    ]
    servers += [(f"controller {voter_id}", ranges) for voter_id, ranges in sorted(voters.items())]
    for server, ranges in servers:
        if ranges is None:
            return f"{server} has not reported the levels that it supports"
        low, high = range_of(ranges, update.feature)
        if not low <= update.level <= high:
            return f"{server} supports levels {low} to {high}"
    return ""


def _fault_of_records(image: MetadataImage, update: FeatureUpdate) -> str:
    """What exists in the metadata that the level does not have, or nothing."""
    if update.feature != SECURITY_VERSION:
        return ""
    found: dict[str, Sized] = {}
    if update.level < ROLES_LEVEL:
        found |= {"roles": image.roles, "namespaces": image.namespaces}
    if update.level < RULES_LEVEL:
        found |= {
            "rules": image.acls,
            "SCRAM credentials": image.scram_credentials,
            "delegation tokens": image.delegation_tokens,
        }
    left = [f"{len(these)} {what}" for what, these in found.items() if len(these)]
    return f"delete first what the level does not have: {', '.join(left)}" if left else ""


def check_security_level(image: MetadataImage, level: int, what: str) -> None:
    """Errors: UnsupportedVersionError below this level of security.version."""
    now = level_of(image, SECURITY_VERSION)
    if now < level:
        raise UnsupportedVersionError(
            f"{what} need level {level} of feature {SECURITY_VERSION}, and the cluster has {now}: raise it by"
            " `headrace feature set` once all servers are of a version that supports it"
        )


def check_supported(image: MetadataImage, ranges: tuple[FeatureRange, ...], server: str) -> None:
    """Errors: UnsupportedVersionError for a server that does not support a level of the cluster."""
    for own in OWN_RANGES:
        level, (low, high) = level_of(image, own.name), range_of(ranges, own.name)
        if not low <= level <= high:
            raise UnsupportedVersionError(
                f"{server} supports levels {low} to {high} of feature {own.name}, and the cluster has"
                f" {level}: install a version of headrace that supports it"
            )
