"""Messages of joins by foreign key; tests/golden has Java's bytes."""

from __future__ import annotations

import pytest
from headrace.clients.serdes import utf8
from headrace.stream.state.formats import foreign_keys as fk


def test_version_0_for_an_upgrade() -> None:
    """While `upgrade.from` is set, subscriptions are written without their partition."""
    serde = fk.subscription_wrapper(utf8, writes_v0=True)
    wrapper = fk.SubscriptionWrapper(None, fk.Instruction.DELETE_KEY_AND_PROPAGATE, "pk", 3)
    assert serde.loads(serde.dumps(wrapper)) == wrapper._replace(primary_partition=None, version=0)


def test_unknown_versions_are_refused() -> None:
    """A newer application wrote them."""
    with pytest.raises(ValueError, match="version 2"):
        fk.subscription_wrapper(utf8).loads(b"\x82\x00pk\x00\x00\x00\x00")
    with pytest.raises(ValueError, match="version 1"):
        fk.subscription_response_wrapper(utf8).loads(b"\x81v")


def test_combined_keys_of_one_foreign_key_share_a_prefix() -> None:
    """The right side of the join finds all subscriptions of a foreign key by prefix."""
    serde = fk.combined_key(utf8, utf8)
    assert serde.dumps(fk.CombinedKey("f", "p")).startswith(fk.combined_key_prefix(b"f"))
    assert not serde.dumps(fk.CombinedKey("fg", "p")).startswith(fk.combined_key_prefix(b"f"))
