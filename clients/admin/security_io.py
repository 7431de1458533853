"""Admin requests about ACLs, SCRAM credentials and delegation tokens."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from ...protocol.errors import KafkaError, ResourceNotFoundError
from ...protocol.messages import registry as apis
from ...protocol.messages import security as s
from ...protocol.security.scram import SALT_BYTES, ScramMechanism, salted_password
from .requester_io import error_of
from .security_types import IssuedToken, ScramCredentialInfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...protocol.security.acls import AclBinding, AclFilter
    from .admin_types import Results
    from .requester_io import AdminRequester
    from .security_types import ScramPassword


class SecurityEngine:
    """Runs on the event loop of the client."""

    def __init__(self, requester: AdminRequester) -> None:
        self._requester = requester

    async def describe_acls(self, selected: AclFilter, *, timeout: float | None) -> list[AclBinding]:
        """The rules that match the filter."""
        call = self._requester.call(timeout)

        async def ask() -> list[AclBinding] | KafkaError:
            request = s.DescribeAclsRequest(selected)
            response = await self._requester.ask(apis.DESCRIBE_ACLS, request, call)
            return error_of(response) or list(response.rules)

        return await self._requester.one("the rules", ask, call)

    async def create_acls(
        self, rules: Sequence[AclBinding], *, timeout: float | None
    ) -> Results[AclBinding, None]:
        """None for each rule, or the error."""
        call = self._requester.call(timeout)

        async def ask(wanted: list[AclBinding]) -> dict[AclBinding, KafkaError | None]:
            request = s.CreateAclsRequest(tuple(wanted))
            response = await self._requester.ask(apis.CREATE_ACLS, request, call)
            return {rule: error_of(answer) for rule, answer in zip(wanted, response.results, strict=False)}

        return await self._requester.retried(list(rules), ask, call)

    async def delete_acls(
        self, filters: Sequence[AclFilter], *, timeout: float | None
    ) -> Results[AclFilter, list[AclBinding]]:
        """The deleted rules of each filter, or the error."""
        call = self._requester.call(timeout)

        async def ask(wanted: list[AclFilter]) -> dict[AclFilter, KafkaError | list[AclBinding]]:
            request = s.DeleteAclsRequest(tuple(wanted))
            response = await self._requester.ask(apis.DELETE_ACLS, request, call)
            pairs = zip(wanted, response.results, strict=False)
            return {each: error_of(answer) or list(answer.rules) for each, answer in pairs}

        return await self._requester.retried(list(filters), ask, call)

    async def describe_scram(
        self, users: Sequence[str], *, timeout: float | None
    ) -> Results[str, list[ScramCredentialInfo]]:
        """The credentials of each user, or the error; without names of all users."""
        call = self._requester.call(timeout)

        async def ask() -> dict[str, Any] | KafkaError:
            request = s.DescribeUserScramCredentialsRequest(tuple(users) or None)
            response = await self._requester.ask(apis.DESCRIBE_USER_SCRAM_CREDENTIALS, request, call)
            return error_of(response) or {
                user.name: error_of(user) or [_info(each) for each in user.credentials]
                for user in response.users
            }

        found = await self._requester.one("the users", ask, call)

        async def answered(_names: list[str]) -> dict[str, Any]:
            return found

        return await self._requester.retried(list(found), answered, call)

    async def set_passwords(
        self, passwords: Mapping[str, ScramPassword], *, timeout: float | None
    ) -> Results[str, None]:
        """None for each user, or the error."""
        upsertions = {}
        for user, password in passwords.items():
            upsertions[user] = _upsertion(user, password)
            await asyncio.sleep(0)  # each takes milliseconds
        return await self._alter({}, upsertions, timeout)

    async def delete_scram(
        self, mechanisms: Mapping[str, ScramMechanism], *, timeout: float | None
    ) -> Results[str, None]:
        """None for each user, or the error."""
        deletions = {user: s.ScramDeletion(user, each) for user, each in mechanisms.items()}
        return await self._alter(deletions, {}, timeout)

    async def _alter(
        self,
        deletions: Mapping[str, s.ScramDeletion],
        upsertions: Mapping[str, s.ScramUpsertion],
        timeout: float | None,
    ) -> Results[str, None]:
        call = self._requester.call(timeout)

        async def ask(wanted: list[str]) -> dict[str, KafkaError | None]:
            request = s.AlterUserScramCredentialsRequest(
                tuple(deletions[user] for user in wanted if user in deletions),
                tuple(upsertions[user] for user in wanted if user in upsertions),
            )
            response = await self._requester.ask(apis.ALTER_USER_SCRAM_CREDENTIALS, request, call)
            found = {item.name: error_of(item) for item in response.results}
            gone = [user for user, error in found.items() if isinstance(error, ResourceNotFoundError)]
            return {**found, **dict.fromkeys(gone)} if call.may_have_run else found

        return await self._requester.retried([*deletions, *upsertions], ask, call)

    async def create_token(
        self, renewers: Sequence[str], owner: str, max_lifetime_ms: int, *, timeout: float | None
    ) -> IssuedToken:
        """A new token."""
        call = self._requester.call(timeout)

        async def ask() -> IssuedToken | KafkaError:
            request = s.CreateDelegationTokenRequest(tuple(renewers), owner, max_lifetime_ms)
            response = await self._requester.ask(apis.CREATE_DELEGATION_TOKEN, request, call)
            return error_of(response) or IssuedToken(response.token, response.hmac)

        return await self._requester.one("the token", ask, call)

    async def renew_token(self, hmac: bytes, period_ms: int, *, timeout: float | None) -> int:
        """The wall-clock time in ms at which it expires now."""
        call = self._requester.call(timeout)

        async def ask() -> int | KafkaError:
            request = s.RenewDelegationTokenRequest(hmac, period_ms)
            response = await self._requester.ask(apis.RENEW_DELEGATION_TOKEN, request, call)
            return error_of(response) or int(response.expiry_ms)

        return await self._requester.one("the token", ask, call)

    async def expire_token(self, hmac: bytes, period_ms: int, *, timeout: float | None) -> int:
        """The wall-clock time in ms at which it expires now."""
        call = self._requester.call(timeout)

        async def ask() -> int | KafkaError:
            request = s.ExpireDelegationTokenRequest(hmac, period_ms)
            response = await self._requester.ask(apis.EXPIRE_DELEGATION_TOKEN, request, call)
            return error_of(response) or int(response.expiry_ms)

        return await self._requester.one("the token", ask, call)

    async def describe_tokens(
        self, owners: Sequence[str] | None, *, timeout: float | None
    ) -> list[IssuedToken]:
        """The tokens that this client may describe."""
        call = self._requester.call(timeout)

        async def ask() -> list[IssuedToken] | KafkaError:
            request = s.DescribeDelegationTokenRequest(None if owners is None else tuple(owners))
            response = await self._requester.ask(apis.DESCRIBE_DELEGATION_TOKEN, request, call)
            return error_of(response) or [IssuedToken(each.token, each.hmac) for each in response.tokens]

        return await self._requester.one("the tokens", ask, call)


def _info(credential: s.ScramCredentialInfo) -> ScramCredentialInfo:
    return ScramCredentialInfo(ScramMechanism(credential.mechanism), credential.iterations)


def _upsertion(user: str, given: ScramPassword) -> s.ScramUpsertion:
    salt = given.salt or os.urandom(SALT_BYTES)
    salted = salted_password(given.mechanism, given.password, salt, given.iterations)
    return s.ScramUpsertion(user, given.mechanism, given.iterations, salt, salted)
