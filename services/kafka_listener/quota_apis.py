"""DescribeClientQuotas, AlterClientQuotas and UpdateFeatures. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.messages import quotas as q
from ...protocol.messages import registry
from .calls import Call, KafkaApi
from .entities import ms_of

if TYPE_CHECKING:
    from ...protocol.metadata.quotas import Entity

_ONE_OUTCOME = 2  # UpdateFeatures: from this version on there is one error for all features
_UPGRADE, _SAFE_DOWNGRADE = 1, 2


def _describe(call: Call) -> None:
    components = tuple(
        q.QuotaFilter(each.entity_type, each.match_type, each.match) for each in call.body.components
    )
    request = q.DescribeClientQuotasRequest(components, call.body.strict)

    def done(response: q.DescribeClientQuotasResponse) -> None:
        entries = [
            {
                "entity": _entity_fields(entry.entity),
                "values": [{"key": key, "value": value} for key, value in sorted(entry.values.items())],
            }
            for entry in response.entries
        ]
        call.answer(_described(response.error_code, response.error_detail, entries))

    call.ask(registry.DESCRIBE_CLIENT_QUOTAS, request, done)


def _described(code: int, text: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {"error_code": code, "error_message": text or None, "entries": None if code else entries}


def _describe_failed(_call: Call, code: int, text: str) -> dict[str, Any]:
    return _described(code, text, [])


def _alter(call: Call) -> None:
    alterations = tuple(
        q.QuotaAlteration(
            _entity(entry), tuple(q.QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops)
        )
        for entry in call.body.entries
    )
    request = q.AlterClientQuotasRequest(alterations, call.body.validate_only)

    def done(response: q.AlterClientQuotasResponse) -> None:
        pairs = zip(alterations, response.results, strict=True)
        call.answer(
            {
                "entries": [
                    _altered(each.entity, result.error_code, result.error_detail) for each, result in pairs
                ]
            }
        )

    call.ask(registry.ALTER_CLIENT_QUOTAS, request, done)


def _entity(entry: Any) -> Entity:
    return tuple((part.entity_type, part.entity_name) for part in entry.entity)


def _entity_fields(entity: Entity) -> list[dict[str, Any]]:
    return [{"entity_type": kind, "entity_name": name} for kind, name in entity]


def _altered(entity: Entity, code: int, text: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": text or None, "entity": _entity_fields(entity)}


def _alter_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    return {"entries": [_altered(_entity(entry), code, text) for entry in call.body.entries]}


def _update_features(call: Call) -> None:
    body = call.body
    updates = tuple(
        q.FeatureUpdate(each.feature, each.max_version_level, _upgrade_type(each))
        for each in body.feature_updates
    )
    request = q.UpdateFeaturesRequest(updates, getattr(body, "validate_only", False), ms_of(body.timeout))

    def done(response: q.UpdateFeaturesResponse) -> None:
        call.answer(_updated(call, response.error_code, response.error_detail))

    call.ask(registry.UPDATE_FEATURES, request, done)


def _upgrade_type(update: Any) -> int:
    """The first version has only a flag that allows downgrades."""
    if hasattr(update, "allow_downgrade"):
        return _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE
    return int(update.upgrade_type)


def _updated(call: Call, code: int, text: str) -> dict[str, Any]:
    results = (
        ()
        if code or call.version >= _ONE_OUTCOME
        else [
            {"feature": each.feature, "error_code": 0, "error_message": None}
            for each in call.body.feature_updates
        ]
    )
    return {"error_code": code, "error_message": text or None, "results": results}


QUOTA_APIS = (
    KafkaApi(48, "DescribeClientQuotas", 0, 1, _describe, _describe_failed),
    KafkaApi(49, "AlterClientQuotas", 0, 1, _alter, _alter_failed),
    KafkaApi(57, "UpdateFeatures", 0, 2, _update_features, _updated),
)
