"""Client quotas and feature levels: sent to any node, decided by the controller."""

from __future__ import annotations

import msgspec

from ..metadata.quotas import Entity
from .control import ItemError

EXACT, DEFAULT, SPECIFIED = 0, 1, 2  # match types of a filter component


class QuotaFilter(msgspec.Struct, array_like=True, frozen=True):
    """One component of a filter: entities that have this type, with the name `match` if the match is
    exact."""

    entity_type: str
    match_type: int
    match: str | None = None


class DescribeClientQuotasRequest(msgspec.Struct, array_like=True, frozen=True):
    """`strict`: entities with further types do not match."""

    components: tuple[QuotaFilter, ...] = ()
    strict: bool = False


class DescribedQuotas(msgspec.Struct, array_like=True, frozen=True):
    """The quotas of one entity."""

    entity: Entity
    values: dict[str, float]


class DescribeClientQuotasResponse(msgspec.Struct, array_like=True, frozen=True):
    """All matching entities."""

    error_code: int = 0
    error_detail: str = ""
    entries: tuple[DescribedQuotas, ...] = ()


class QuotaChange(msgspec.Struct, array_like=True, frozen=True):
    """One quota of an entity; None removes it."""

    key: str
    value: float | None = None


class QuotaAlteration(msgspec.Struct, array_like=True, frozen=True):
    """Changes of one entity, made together or not at all."""

    entity: Entity
    changes: tuple[QuotaChange, ...]


class AlterClientQuotasRequest(msgspec.Struct, array_like=True, frozen=True):
    """Change client quotas; with `validate_only`, only check the request."""

    alterations: tuple[QuotaAlteration, ...]
    validate_only: bool = False


class AlterClientQuotasResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request, without names. The changes are in the metadata at
    `metadata_offset`."""

    results: tuple[ItemError, ...]
    metadata_offset: int = -1


class FeatureUpdate(msgspec.Struct, array_like=True, frozen=True):
    """`upgrade_type`: 1 upgrade, 2 safe and 3 unsafe downgrade."""

    feature: str
    level: int
    upgrade_type: int = 1


class UpdateFeaturesRequest(msgspec.Struct, array_like=True, frozen=True):
    """Change feature levels, all or none; with `validate_only`, only check the request."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False
    timeout_ms: int = 30_000


class UpdateFeaturesResponse(msgspec.Struct, array_like=True, frozen=True):
    """The levels are in the metadata at `metadata_offset`."""

    error_code: int = 0
    error_detail: str = ""
    metadata_offset: int = -1
