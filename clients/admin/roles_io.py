"""The part of the admin client about roles, namespaces and feature levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import KafkaError, ResourceNotFoundError
from ...protocol.messages import data, quotas
from ...protocol.messages import registry as apis
from ...protocol.messages import roles as r
from .requester_io import error_of
from .role_types import FeatureLevel, NamespaceDescription, RoleDescription

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .admin_types import Results
    from .requester_io import AdminRequester, Call

_UPGRADE, _DOWNGRADE = 1, 2


class RolesEngine:
    """Runs on the loop of the client."""

    def __init__(self, requester: AdminRequester) -> None:
        self._requester = requester

    async def create_roles(self, names: Sequence[str], *, timeout: float | None) -> Results[str, None]:
        """None for each role, or the error."""
        return await self._alter({name: r.RoleChange(name, r.CREATE) for name in names}, names, timeout)

    async def delete_roles(
        self, names: Sequence[str], *, with_rules: bool, timeout: float | None
    ) -> Results[str, None]:
        """None for each role, or the error."""
        action = r.DELETE_WHOLE if with_rules else r.DELETE
        return await self._alter({name: r.RoleChange(name, action) for name in names}, names, timeout)

    async def grant(self, role: str, members: Sequence[str], *, timeout: float | None) -> Results[str, None]:
        """None for each principal, or the error."""
        changes = {member: r.RoleChange(role, r.GRANT, member) for member in members}
        return await self._alter(changes, members, timeout)

    async def revoke(self, role: str, members: Sequence[str], *, timeout: float | None) -> Results[str, None]:
        """None for each principal, or the error."""
        changes = {member: r.RoleChange(role, r.REVOKE, member) for member in members}
        return await self._alter(changes, members, timeout)

    async def _alter(
        self, changes: Mapping[str, r.RoleChange], keys: Sequence[str], timeout: float | None
    ) -> Results[str, None]:
        call = self._requester.call(timeout)

        async def ask(wanted: list[str]) -> dict[str, KafkaError | None]:
            request = r.AlterRolesRequest(tuple(changes[key] for key in wanted))
            response = await self._requester.ask(apis.ALTER_ROLES, request, call)
            pairs = zip(wanted, response.results, strict=False)
            return {key: _unless_gone(error_of(answer), call) for key, answer in pairs}

        return await self._requester.retried(list(keys), ask, call)

    async def describe_roles(
        self, names: Sequence[str], member: str, *, timeout: float | None
    ) -> Results[str, RoleDescription]:
        """The description of each role, or the error; without names of all roles."""
        call = self._requester.call(timeout)

        async def ask() -> dict[str, RoleDescription | KafkaError] | KafkaError:
            request = r.DescribeRolesRequest(tuple(names), member)
            response = await self._requester.ask(apis.DESCRIBE_ROLES, request, call)
            return error_of(response) or {
                each.name: error_of(each) or RoleDescription(each.name, each.members)
                for each in response.roles
            }

        found = await self._requester.one("the roles", ask, call)

        async def answered(_names: list[str]) -> dict[str, RoleDescription | KafkaError]:
            return found

        return await self._requester.retried(list(found), answered, call)

    async def alter_namespaces(
        self, changes: Sequence[r.NamespaceChange], *, timeout: float | None
    ) -> Results[str, None]:
        """None for each prefix, or the error."""
        call = self._requester.call(timeout)
        by_prefix = {change.prefix: change for change in changes}

        async def ask(wanted: list[str]) -> dict[str, KafkaError | None]:
            request = r.AlterNamespacesRequest(tuple(by_prefix[prefix] for prefix in wanted))
            response = await self._requester.ask(apis.ALTER_NAMESPACES, request, call)
            return {
                each.name: _unless_gone(error_of(each), call)
                if by_prefix[each.name].is_deleted
                else error_of(each)
                for each in response.results
            }

        return await self._requester.retried([change.prefix for change in changes], ask, call)

    async def describe_namespaces(
        self, prefixes: Sequence[str], *, timeout: float | None
    ) -> Results[str, NamespaceDescription]:
        """The description of each namespace, or the error; without prefixes of all."""
        call = self._requester.call(timeout)

        async def ask() -> dict[str, NamespaceDescription | KafkaError] | KafkaError:
            request = r.DescribeNamespacesRequest(tuple(prefixes))
            response = await self._requester.ask(apis.DESCRIBE_NAMESPACES, request, call)
            return error_of(response) or {
                each.prefix: error_of(each) or _described(each) for each in response.namespaces
            }

        found = await self._requester.one("the namespaces", ask, call)

        async def answered(_prefixes: list[str]) -> dict[str, NamespaceDescription | KafkaError]:
            return found

        return await self._requester.retried(list(found), answered, call)

    async def describe_features(self, *, timeout: float | None) -> dict[str, FeatureLevel]:
        """The features by name, as one node knows them."""
        call = self._requester.call(timeout)
        response = await self._requester.ask(apis.DESCRIBE_CLUSTER, data.DescribeClusterRequest(), call)
        return {
            each.name: FeatureLevel(each.level, each.min_level, each.max_level) for each in response.features
        }

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        allow_downgrade: bool,
        validate_only: bool,
        timeout: float | None,
    ) -> None:
        """Set levels, all or none."""
        call = self._requester.call(timeout)
        now = await self.describe_features(timeout=timeout) if allow_downgrade else {}
        updates = tuple(
            quotas.FeatureUpdate(
                name, level, _DOWNGRADE if name in now and level < now[name].level else _UPGRADE
            )
            for name, level in levels.items()
        )

        async def ask() -> KafkaError | None:
            request = quotas.UpdateFeaturesRequest(updates, validate_only, self._requester.left_ms(call))
            return error_of(await self._requester.ask(apis.UPDATE_FEATURES, request, call))

        await self._requester.one("the features", ask, call)


def _described(answer: r.DescribedNamespace) -> NamespaceDescription:
    found = answer.namespace
    assert found is not None, "a namespace without an error"
    limits = found.max_topics, found.max_partitions
    return NamespaceDescription(answer.prefix, *limits, found.owner, answer.topics, answer.partitions)


def _unless_gone(error: KafkaError | None, call: Call) -> KafkaError | None:
    """The error; none for something that an attempt before this one may have removed."""
    return None if isinstance(error, ResourceNotFoundError) and call.may_have_run else error
