"""Java's order of sets of strings. The expected values are those of a JVM."""

from __future__ import annotations

from headrace.stream.topology import java_order


def test_hash_codes_are_those_of_java() -> None:
    """`"".hashCode()`, `"orders".hashCode()` and one with a character outside the basic plane."""
    assert java_order.hash_code("") == 0
    assert java_order.hash_code("abc") == 96354
    assert java_order.hash_code("\U0001f600") == (31 * 0xD83D + 0xDE00) & 0xFFFFFFFF


def test_a_copy_of_twelve_names_has_twice_the_buckets_of_a_grown_set() -> None:
    """HashMap grows when it has more than 0.75 entries per bucket, and plans for more when it copies."""
    text = "orders users clicks views pages rates items carts stocks trades quotes mails"
    names = text.split()
    grown = "mails pages carts rates clicks trades orders items users views stocks quotes"
    copied = "rates trades users stocks quotes mails pages carts clicks orders items views"
    assert " ".join(java_order.grown(names)) == grown
    assert " ".join(java_order.copied(names)) == copied


def test_bytes_are_in_the_order_of_their_buckets() -> None:
    """Hash codes 31 + signed byte: 31 + 97 = 128 is in bucket 0 of 16, 31 - 1 = 30 in bucket 14."""
    assert java_order.of_bytes([b"\xff", b"b", b"a"], 16) == [b"a", b"b", b"\xff"]
    assert java_order.of_bytes([b"b", b"r"], 16) == [b"b", b"r"], "one bucket: in the order of insertion"
