"""Accounts of users and of delegation tokens, as SCRAM needs them."""

from __future__ import annotations

import pytest
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.security.principals import user
from headrace.protocol.security.scram import (
    ScramClient,
    ScramMechanism,
    ScramServer,
    credential_from_password,
)
from headrace.protocol.security.tokens import DelegationToken, token_password
from headrace.storage_node.edge import accounts as module
from headrace.storage_node.edge.accounts import Accounts

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
TOKEN = DelegationToken("t1", "User:owner", "User:q", (), 1, 10, 5)
IMAGE = MetadataImage(
    scram_credentials={("alice", SHA_256): credential_from_password(SHA_256, "pw", b"salt")},
    delegation_tokens={"t1": TOKEN, "t2": TOKEN._replace(token_id="t2")},
)


def test_users_by_mechanism() -> None:
    accounts = Accounts(lambda: IMAGE, "")
    alice = accounts.scram_account(SHA_256, "alice", False)
    assert alice is not None
    assert alice.principal == user("alice")
    assert accounts.scram_account(SHA_512, "alice", False) is None
    assert accounts.scram_account(SHA_256, "t1", False) is None
    assert accounts.scram_account(SHA_256, "t1", True) is None  # without a secret key


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_a_token_authenticates_its_owner_until_it_expires(mechanism: ScramMechanism) -> None:
    accounts = Accounts(lambda: IMAGE, "key")
    client = ScramClient(mechanism, "t1", token_password("key", "t1"), "nonce", by_token=True)
    server = ScramServer(
        mechanism, lambda name, by_token: accounts.scram_account(mechanism, name, by_token), "other"
    )
    client.step(server.step(client.step(server.step(client.first()))))
    assert client.is_complete
    assert server.account is not None
    assert server.account[1:] == (user("owner"), 5, "t1")
    assert accounts.scram_account(mechanism, "alice", True) is None


def test_derived_credentials_are_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DERIVED", 1)
    accounts = Accounts(lambda: IMAGE, "key")
    first = accounts.scram_account(SHA_256, "t1", True)
    again = accounts.scram_account(SHA_256, "t1", True)
    assert first is not None
    assert again is not None
    assert again.credential is first.credential
    accounts.scram_account(SHA_256, "t2", True)
    assert len(accounts._derived) == 1
