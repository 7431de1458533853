"""Murmur3; tests/golden has Java's hashes."""

from headrace.stream.state.formats.murmur3 import hash128


def test_hash_has_16_bytes_and_depends_on_all_of_the_data() -> None:
    """Each byte of a tail counts."""
    hashes = {hash128(b"0123456789abcdef" + bytes(17)[:size] + b"x") for size in range(17)}
    assert len(hashes) == 17
    assert all(len(each) == 16 for each in hashes)
