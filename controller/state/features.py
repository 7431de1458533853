"""Feature levels: a request is applied as a whole or not at all. Pure.

Source: Kafka FeatureControlManager.java; KIP-584, 1022.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRequestError, InvalidUpdateVersionError, KafkaError
from ...protocol.messages.quotas import UpdateFeaturesResponse
from ...protocol.metadata.features import SUPPORTED, level_of
from ...protocol.metadata.records import FeatureLevelRecord
from .decision import Decision

if TYPE_CHECKING:
    from ...protocol.messages.quotas import FeatureUpdate, UpdateFeaturesRequest
    from ...protocol.metadata.image import MetadataImage

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
MAX_UPDATES = 100  # Bound: of one request; many times the features that there are
_MAX_NAME = 100


def decide_features(image: MetadataImage, request: UpdateFeaturesRequest) -> Decision:
    """An error of one feature refuses all."""
    try:
        if len(request.updates) > MAX_UPDATES:
            raise InvalidRequestError(f"{len(request.updates)} features, at most {MAX_UPDATES}")
        names = [update.feature for update in request.updates]
        if len(set(names)) != len(names):
            raise InvalidRequestError("a feature is named twice")
        for update in request.updates:
            _check(image, update)
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


def _check(image: MetadataImage, update: FeatureUpdate) -> None:
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
    else:
        return
    raise InvalidUpdateVersionError(f"level {level} of feature {name[:_MAX_NAME]!r}: {why}")
