"""Delegation token requests: signed with the requester, answered with what it may see."""

from __future__ import annotations

import pytest
from headrace.protocol.errors import DelegationTokenRequestNotAllowedError
from headrace.protocol.messages.security import (
    RenewDelegationTokenRequest,
)
from headrace.protocol.security.identity import ANONYMOUS_IDENTITY, Identity
from headrace.protocol.security.principals import user
from headrace.storage_node.edge.token_requests import signed

ALICE = Identity(user("alice"), mechanism="SCRAM-SHA-256")


def test_the_requester_is_that_of_the_connection() -> None:
    forged = RenewDelegationTokenRequest(b"h", 5, "User:root")
    assert signed(forged, ALICE) == RenewDelegationTokenRequest(b"h", 5, "User:alice")


@pytest.mark.parametrize("identity", [ANONYMOUS_IDENTITY, ALICE._replace(token_id="t")])
def test_token_requests_need_an_authenticated_connection(identity: Identity) -> None:
    with pytest.raises(DelegationTokenRequestNotAllowedError):
        signed(RenewDelegationTokenRequest(b"h"), identity)
