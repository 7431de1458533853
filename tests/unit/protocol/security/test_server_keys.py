"""Names, key pairs and trusted keys of servers, and their files."""

import pytest
from headrace.protocol.errors import ConfigError
from headrace.protocol.security.server_keys import (
    CONTROLLER,
    MAX_KEYS_PER_SERVER,
    NODE,
    CurveKeys,
    OwnKeys,
    ServerName,
    TrustedKeys,
    parse_own_keys,
    parse_trusted_keys,
    public_key,
    server_name,
)

ONE, TWO, THREE = bytes([1]) * 32, bytes([2]) * 32, bytes([3]) * 32
NODE_1, CONTROLLER_1 = ServerName(NODE, 1), ServerName(CONTROLLER, 1)


def test_a_pair_survives_its_file_and_is_not_printed() -> None:
    """The secret key is in the file alone."""
    own = OwnKeys(NODE_1, CurveKeys(ONE, TWO))
    assert parse_own_keys(own.to_text()) == own
    assert TWO.hex() not in repr(own)
    assert ONE.hex() in repr(own)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name node-1\n",
        f"name node-1\npublic {ONE.hex()}\nsecret 12\n",
        f"public {ONE.hex()}\nsecret x y\nname z",
    ],
)
def test_a_bad_key_file_is_refused_without_its_content(text: str) -> None:
    """A secret key must not end up in a log."""
    with pytest.raises(ConfigError) as caught:
        parse_own_keys(text)
    assert ONE.hex() not in str(caught.value)


@pytest.mark.parametrize("text", ["", "12", "zz" * 32, "11" * 33])
def test_bad_public_keys(text: str) -> None:
    """Not 32 bytes."""
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        public_key(text)


@pytest.mark.parametrize("text", ["node", "node-", "node-x", "broker-1", "node-1 ", "node--1"])
def test_bad_names(text: str) -> None:
    """Neither a node nor a controller."""
    with pytest.raises(ConfigError, match="node-<id> or controller-<id>"):
        server_name(text)


def test_trusted_keys_by_server_kind_and_owner() -> None:
    """The newest key of a server first, servers by name."""
    keys = TrustedKeys([(NODE_1, ONE), (CONTROLLER_1, TWO)])
    keys = keys.with_key(NODE_1, THREE).with_key(NODE_1, THREE)
    assert keys.keys_of("node-1") == (THREE, ONE)
    assert keys.keys_of("controller") == (TWO,)
    assert keys.keys_of() == (TWO, THREE, ONE)
    assert keys.keys_of("node-2") == ()
    assert (keys.owner(ONE), keys.owner(bytes(32)), len(keys)) == (NODE_1, None, 3)
    assert parse_trusted_keys("# comment\n\n" + keys.to_text()).keys_of() == keys.keys_of()
    newest = keys.without_old_keys(NODE_1)
    assert newest.keys_of() == (TWO, THREE)


def test_trusted_keys_that_cannot_be() -> None:
    """Two servers with one key, too many keys, and lines that are none."""
    with pytest.raises(ConfigError, match="same public key"):
        TrustedKeys([(NODE_1, ONE), (CONTROLLER_1, ONE)])
    many = [(NODE_1, bytes([number]) * 32) for number in range(MAX_KEYS_PER_SERVER + 1)]
    with pytest.raises(ConfigError, match="more than"):
        TrustedKeys(many)
    with pytest.raises(ConfigError, match="line 2"):
        parse_trusted_keys(f"node-1 {ONE.hex()}\nnode-2")
