"""The rules for delegation token requests, at the node that has the connection. Pure.

Source: Kafka KafkaApis.scala (allowTokenRequests).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.errors import DelegationTokenRequestNotAllowedError
from ...protocol.messages import security as s

if TYPE_CHECKING:
    from ...protocol.security.identity import Identity

TOKEN_REQUESTS = (
    s.CreateDelegationTokenRequest,
    s.RenewDelegationTokenRequest,
    s.ExpireDelegationTokenRequest,
    s.DescribeDelegationTokenRequest,
)


def signed(request: Any, identity: Identity) -> Any:
    """The request with its requester. Errors: DelegationTokenRequestNotAllowedError on a connection that is
    not authenticated, or is by a token."""
    if not identity.is_authenticated or identity.token_id:
        raise DelegationTokenRequestNotAllowedError(
            "delegation tokens need a connection that is authenticated, and not by a delegation token"
        )
    return msgspec.structs.replace(request, requester=str(identity.principal))
