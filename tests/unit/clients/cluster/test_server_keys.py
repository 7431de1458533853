"""Which keys a client tries at an address, and in which order."""

from headrace.clients.cluster.server_keys import MAX_ADDRESSES, ServerKeys
from headrace.protocol.errors import ConfigError

ONE, TWO, THREE = (bytes([number]) * 32 for number in (1, 2, 3))


def test_pinned_learned_and_remembered_keys() -> None:
    """The right one of last time first, those of other addresses last; a new list replaces the last one."""
    keys = ServerKeys(lambda: [ONE])
    assert keys.keys_for("a:1") == (ONE,)
    keys.learn((f"node-1 {ONE.hex()}", f"node-2 {TWO.hex()}"))
    keys.found("a:1", ONE)
    assert keys.keys_for("a:1") == (ONE, TWO)
    assert keys.keys_for("b:1") == (TWO, ONE)
    keys.found("b:1", TWO)
    keys.learn((f"node-2 {THREE.hex()}", f"node-2 {TWO.hex()}"))
    assert keys.keys_for("b:1") == (TWO, THREE, ONE)
    keys.learn(("node-2 not-a-key",))
    assert THREE in keys.keys_for("b:1")


def test_pinned_keys_are_read_again_as_far_as_possible() -> None:
    """A file that is being replaced changes nothing."""
    found = [[ONE], [TWO]]

    def read() -> list[bytes]:
        if not found:
            raise ConfigError("gone")
        return found.pop(0)

    keys = ServerKeys(read)
    keys.pin_again()
    keys.pin_again()
    assert keys.keys_for("a:1") == (TWO,)


def test_remembered_addresses_are_bounded() -> None:
    """A client of a cluster whose nodes move for years."""
    keys = ServerKeys(lambda: [ONE, TWO])
    for number in range(MAX_ADDRESSES + 1):
        keys.found(str(number), TWO)
    assert keys.keys_for("0") == (ONE, TWO)
