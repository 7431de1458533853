"""Identities of connections."""

from __future__ import annotations

import pytest
from headrace.protocol.security.identity import ANONYMOUS_IDENTITY, Identity, host_of


@pytest.mark.parametrize(
    ("address", "host"),
    [("10.0.0.1:9092", "10.0.0.1"), ("[::1]:9092", "::1"), ("[::ffff:10.0.0.1]:1", "10.0.0.1"), ("", "")],
)
def test_host_of_an_address(address: str, host: str) -> None:
    assert host_of(address) == host


def test_a_mechanism_makes_an_identity_authenticated() -> None:
    assert not ANONYMOUS_IDENTITY.is_authenticated
    assert Identity(mechanism="PLAIN").is_authenticated
