"""Rules, SCRAM credentials and delegation tokens: sent to any node, decided by the controller.

Values that are secrets are not in the repr of any message.
"""

from __future__ import annotations

import msgspec

from ..security.acls import AclBinding, AclFilter
from ..security.tokens import DelegationToken
from .control import ItemError

# --- rules ---------------------------------------------------------------------------------------------


class DescribeAclsRequest(msgspec.Struct, array_like=True, frozen=True):
    """The rules that a filter selects."""

    filter: AclFilter = AclFilter()


class DescribeAclsResponse(msgspec.Struct, array_like=True, frozen=True):
    """The rules, sorted."""

    error_code: int = 0
    error_detail: str = ""
    rules: tuple[AclBinding, ...] = ()


class CreateAclsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Create rules; those that exist already stay."""

    rules: tuple[AclBinding, ...]


class CreateAclsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request, without names. The rules are in the metadata at
    `metadata_offset`."""

    results: tuple[ItemError, ...]
    metadata_offset: int = -1


class DeleteAclsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Delete all rules that a filter selects."""

    filters: tuple[AclFilter, ...]


class DeletedAcls(msgspec.Struct, array_like=True, frozen=True):
    """The rules that one filter selected, sorted; they were deleted."""

    error_code: int = 0
    error_detail: str = ""
    rules: tuple[AclBinding, ...] = ()


class DeleteAclsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the filters."""

    results: tuple[DeletedAcls, ...]
    metadata_offset: int = -1


# --- SCRAM credentials ---------------------------------------------------------------------------------


class DescribeUserScramCredentialsRequest(msgspec.Struct, array_like=True, frozen=True):
    """None or no users: all."""

    users: tuple[str, ...] | None = None


class ScramCredentialInfo(msgspec.Struct, array_like=True, frozen=True):
    """A credential without its secrets. `mechanism`: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    mechanism: int
    iterations: int


class DescribedScramUser(msgspec.Struct, array_like=True, frozen=True):
    """The credentials of one user, or the error."""

    name: str
    error_code: int = 0
    error_detail: str = ""
    credentials: tuple[ScramCredentialInfo, ...] = ()


class DescribeUserScramCredentialsResponse(msgspec.Struct, array_like=True, frozen=True):
    """The users in the order of the request; all are sorted by name."""

    error_code: int = 0
    error_detail: str = ""
    users: tuple[DescribedScramUser, ...] = ()


class ScramDeletion(msgspec.Struct, array_like=True, frozen=True):
    """Delete a user's credential of one mechanism."""

    user: str
    mechanism: int


class ScramUpsertion(msgspec.Struct, array_like=True, frozen=True):
    """Set a user's credential of one mechanism, from the password as the client salted it."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion({self.user!r}, {self.mechanism}, {self.iterations}, ...)"


class AlterUserScramCredentialsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Change credentials; each user may be named once."""

    deletions: tuple[ScramDeletion, ...] = ()
    upsertions: tuple[ScramUpsertion, ...] = ()


class AlterUserScramCredentialsResponse(msgspec.Struct, array_like=True, frozen=True):
    """One result for each user, in the order of the request."""

    results: tuple[ItemError, ...]
    metadata_offset: int = -1


# --- delegation tokens ---------------------------------------------------------------------------------


class CreateDelegationTokenRequest(msgspec.Struct, array_like=True, frozen=True):
    """Principals are text, like `User:alice`. `requester`: set by the node that has the connection.

    An empty owner is the requester. A lifetime below 1 is the longest one.
    """

    renewers: tuple[str, ...] = ()
    owner: str = ""
    max_lifetime_ms: int = -1
    requester: str = ""


class CreateDelegationTokenResponse(msgspec.Struct, array_like=True, frozen=True):
    """The token, and the HMAC that authenticates with it."""

    error_code: int = 0
    error_detail: str = ""
    token: DelegationToken | None = None
    hmac: bytes = b""
    metadata_offset: int = -1

    def __repr__(self) -> str:
        return f"CreateDelegationTokenResponse({self.error_code}, {self.token!r}, ...)"


class RenewDelegationTokenRequest(msgspec.Struct, array_like=True, frozen=True):
    """Let a token expire later; a period below 1 is the longest one."""

    hmac: bytes
    renew_period_ms: int = -1
    requester: str = ""

    def __repr__(self) -> str:
        return f"RenewDelegationTokenRequest(..., {self.renew_period_ms}, {self.requester!r})"


class RenewDelegationTokenResponse(msgspec.Struct, array_like=True, frozen=True):
    """The wall-clock time at which it expires now."""

    error_code: int = 0
    error_detail: str = ""
    expiry_ms: int = -1
    metadata_offset: int = -1


class ExpireDelegationTokenRequest(msgspec.Struct, array_like=True, frozen=True):
    """Let a token expire after this time; it is removed at once if the time is below 0."""

    hmac: bytes
    expiry_period_ms: int = -1
    requester: str = ""

    def __repr__(self) -> str:
        return f"ExpireDelegationTokenRequest(..., {self.expiry_period_ms}, {self.requester!r})"


class ExpireDelegationTokenResponse(msgspec.Struct, array_like=True, frozen=True):
    """The wall-clock time at which it expires now."""

    error_code: int = 0
    error_detail: str = ""
    expiry_ms: int = -1
    metadata_offset: int = -1


class DescribeDelegationTokenRequest(msgspec.Struct, array_like=True, frozen=True):
    """The tokens that one of the owners may renew; None: of all owners."""

    owners: tuple[str, ...] | None = None
    requester: str = ""


class DescribedToken(msgspec.Struct, array_like=True, frozen=True):
    """A token with its HMAC."""

    token: DelegationToken
    hmac: bytes

    def __repr__(self) -> str:
        return f"DescribedToken({self.token!r}, ...)"


class DescribeDelegationTokenResponse(msgspec.Struct, array_like=True, frozen=True):
    """The tokens that the client may see."""

    error_code: int = 0
    error_detail: str = ""
    tokens: tuple[DescribedToken, ...] = ()
