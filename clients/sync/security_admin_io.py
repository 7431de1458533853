# Made by `python -m headrace.services.sync_clients` from clients/aio/security_admin_io.py: edit that file.
"""Methods of the asyncio admin client for ACLs, users and delegation tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.security.acls import AclFilter

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from ...protocol.security.acls import AclBinding
    from ...protocol.security.scram import ScramMechanism
    from ..admin.admin_io import AdminEngine
    from ..admin.admin_types import Results
    from ..admin.security_io import SecurityEngine
    from ..admin.security_types import IssuedToken, ScramCredentialInfo, ScramPassword

T = TypeVar("T")


class SecurityAdmin:
    """Base of the admin client. Names of rules are in `headrace.security`."""

    def describe_acls(
        self, selected: AclFilter | None = None, *, timeout: float | None = None
    ) -> list[AclBinding]:
        """The rules that match a filter, by default all rules. Names of rules are in `headrace.security`."""
        return self._run(self._security.describe_acls(selected or AclFilter(), timeout=timeout))

    def create_acls(self, *rules: AclBinding, timeout: float | None = None) -> Results[AclBinding, None]:
        """Create rules; those that exist already stay."""
        return self._run(self._security.create_acls(rules, timeout=timeout))

    def delete_acls(
        self, *filters: AclFilter, timeout: float | None = None
    ) -> Results[AclFilter, list[AclBinding]]:
        """Delete the rules that match each filter; returns the deleted rules."""
        return self._run(self._security.delete_acls(filters, timeout=timeout))

    def describe_users(
        self, *users: str, timeout: float | None = None
    ) -> Results[str, list[ScramCredentialInfo]]:
        """The SCRAM credentials of users, by default of all that have some."""
        return self._run(self._security.describe_scram(users, timeout=timeout))

    def set_passwords(
        self, passwords: Mapping[str, ScramPassword], *, timeout: float | None = None
    ) -> Results[str, None]:
        """Set SCRAM credentials of users; a user has one of each mechanism."""
        return self._run(self._security.set_passwords(passwords, timeout=timeout))

    def delete_passwords(
        self, mechanisms: Mapping[str, ScramMechanism], *, timeout: float | None = None
    ) -> Results[str, None]:
        """Delete the SCRAM credential of a mechanism of each user."""
        return self._run(self._security.delete_scram(mechanisms, timeout=timeout))

    def create_delegation_token(
        self,
        *,
        renewers: Sequence[str] = (),
        owner: str = "",
        max_lifetime_ms: int = -1,
        timeout: float | None = None,
    ) -> IssuedToken:
        """Create a delegation token. Principals are text like `User:alice`; the default owner is the user of
        this client, the default lifetime the longest one."""
        return self._run(self._security.create_token(renewers, owner, max_lifetime_ms, timeout=timeout))

    def renew_delegation_token(
        self, hmac: bytes, *, period_ms: int = -1, timeout: float | None = None
    ) -> int:
        """Extend the expiry time of a token, by default by delegation.token.expiry.time.ms; returns the new
        expiry time, wall clock in ms."""
        return self._run(self._security.renew_token(hmac, period_ms, timeout=timeout))

    def expire_delegation_token(
        self, hmac: bytes, *, period_ms: int = -1, timeout: float | None = None
    ) -> int:
        """Expire a token after this time, by default now; returns the new expiry time, wall clock in ms."""
        return self._run(self._security.expire_token(hmac, period_ms, timeout=timeout))

    def describe_delegation_tokens(
        self, owners: Sequence[str] | None = None, *, timeout: float | None = None
    ) -> list[IssuedToken]:
        """The tokens that this client may describe; with `owners` those that one of them may renew."""
        return self._run(self._security.describe_tokens(owners, timeout=timeout))

    @property
    def _security(self) -> SecurityEngine:
        return self._engine.security

    @property
    def _engine(self) -> AdminEngine:
        raise NotImplementedError

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError
