# Made by `python -m headrace.services.sync_clients` from clients/aio/roles_admin_io.py: edit that file.
"""The synchronous admin client's part about roles, namespaces and feature levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.messages.roles import NamespaceChange

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from ..admin.admin_io import AdminEngine
    from ..admin.admin_types import Results
    from ..admin.role_types import FeatureLevel, NamespaceDescription, RoleDescription
    from ..admin.roles_io import RolesEngine

T = TypeVar("T")


class RolesAdmin:
    """Base of the admin client. Principals are text like `User:alice`."""

    def create_roles(self, *names: str, timeout: float | None = None) -> Results[str, None]:
        """Create roles; those that exist stay. The rules of a role are those of the principal
        `Role:name`, see `create_acls`."""
        return self._run(self._roles.create_roles(names, timeout=timeout))

    def delete_roles(
        self, *names: str, with_rules: bool = False, timeout: float | None = None
    ) -> Results[str, None]:
        """Delete roles without members and rules, or `with_rules` and members."""
        return self._run(self._roles.delete_roles(names, with_rules=with_rules, timeout=timeout))

    def grant_role(self, role: str, *principals: str, timeout: float | None = None) -> Results[str, None]:
        """Make users members of a role; those that are stay."""
        return self._run(self._roles.grant(role, principals, timeout=timeout))

    def revoke_role(self, role: str, *principals: str, timeout: float | None = None) -> Results[str, None]:
        """Take a role from users."""
        return self._run(self._roles.revoke(role, principals, timeout=timeout))

    def describe_roles(
        self, *names: str, member: str = "", timeout: float | None = None
    ) -> Results[str, RoleDescription]:
        """The members of roles, by default of all; with `member` only of those that it has."""
        return self._run(self._roles.describe_roles(names, member, timeout=timeout))

    def set_namespace(
        self,
        prefix: str,
        *,
        max_topics: int | None = None,
        max_partitions: int | None = None,
        owner: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Create or change the namespace of all topics whose names begin with `prefix`: the most topics and
        partitions, -1 for no limit, and the role that owns it, empty for none. None keeps a value."""
        change = NamespaceChange(prefix, max_topics, max_partitions, owner)
        results = self._run(self._roles.alter_namespaces([change], timeout=timeout))
        return results[prefix]  # raises its error

    def delete_namespaces(self, *prefixes: str, timeout: float | None = None) -> Results[str, None]:
        """Delete namespaces; their topics stay."""
        changes = [NamespaceChange(prefix, is_deleted=True) for prefix in prefixes]
        return self._run(self._roles.alter_namespaces(changes, timeout=timeout))

    def describe_namespaces(
        self, *prefixes: str, timeout: float | None = None
    ) -> Results[str, NamespaceDescription]:
        """The limits and present topics of namespaces, by default of all."""
        return self._run(self._roles.describe_namespaces(prefixes, timeout=timeout))

    def describe_features(self, *, timeout: float | None = None) -> dict[str, FeatureLevel]:
        """The feature levels of the cluster, as one node knows them."""
        return self._run(self._roles.describe_features(timeout=timeout))

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        allow_downgrade: bool = False,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Set feature levels, all or none; lower ones only with `allow_downgrade`."""
        self._run(
            self._roles.update_features(
                levels, allow_downgrade=allow_downgrade, validate_only=validate_only, timeout=timeout
            )
        )

    @property
    def _roles(self) -> RolesEngine:
        return self._engine.roles

    @property
    def _engine(self) -> AdminEngine:
        raise NotImplementedError

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError
