"""The quotas part of the admin client: limits of users, client ids and addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError, KafkaError
from ...protocol.messages import quotas as q
from ...protocol.messages import registry as apis
from ...protocol.metadata.quotas import CLIENT_ID, IP, USER, Entity, sorted_entity
from .admin_types import ANY_NAME
from .requester_io import error_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .admin_types import Results
    from .requester_io import AdminRequester

_TYPES = {"user": USER, "client_id": CLIENT_ID, "ip": IP}


class QuotaEngine:
    """Runs on the loop of the client."""

    def __init__(self, requester: AdminRequester) -> None:
        self._requester = requester

    async def describe(
        self, names: Mapping[str, Any], *, strict: bool, timeout: float | None
    ) -> dict[Entity, dict[str, float]]:
        """The quotas of all entities that match."""
        request = q.DescribeClientQuotasRequest(tuple(_filter(*pair) for pair in names.items()), strict)
        call = self._requester.call(timeout)

        async def ask() -> dict[Entity, dict[str, float]] | KafkaError:
            response = await self._requester.ask(apis.DESCRIBE_CLIENT_QUOTAS, request, call)
            return error_of(response) or {entry.entity: entry.values for entry in response.entries}

        return await self._requester.one("the quotas", ask, call)

    async def alter(
        self,
        changes: Mapping[Entity, Mapping[str, float | None]],
        *,
        validate_only: bool,
        timeout: float | None,
    ) -> Results[Entity, None]:
        """None for each entity, or the error; none of its changes was made then."""
        call = self._requester.call(timeout)

        async def ask(wanted: list[Entity]) -> dict[Entity, KafkaError | None]:
            alterations = tuple(
                q.QuotaAlteration(entity, tuple(q.QuotaChange(*pair) for pair in changes[entity].items()))
                for entity in wanted
            )
            request = q.AlterClientQuotasRequest(alterations, validate_only)
            response = await self._requester.ask(apis.ALTER_CLIENT_QUOTAS, request, call)
            return {item: error_of(answer) for item, answer in zip(wanted, response.results, strict=False)}

        return await self._requester.retried(list(changes), ask, call)


def quota_entity(**names: str | None) -> Entity:
    """An entity of quotas: `user`, `client_id`, both, or `ip`; None stands for all without own quotas."""
    return sorted_entity((_type_of(kind), name) for kind, name in names.items())


def _filter(kind: str, name: Any) -> q.QuotaFilter:
    if name is ANY_NAME:
        return q.QuotaFilter(_type_of(kind), q.SPECIFIED)
    return q.QuotaFilter(_type_of(kind), q.DEFAULT if name is None else q.EXACT, name)


def _type_of(kind: str) -> str:
    if kind not in _TYPES:
        raise ConfigError(f"quotas are of {', '.join(_TYPES)}, not of {kind!r}")
    return _TYPES[kind]
