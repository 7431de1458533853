"""Values and keys: reproducible, with the right size and number."""

from pathlib import Path

import pytest
from headrace.services.bench.payloads import PAYLOAD_KINDS, Payload


@pytest.mark.parametrize("kind", PAYLOAD_KINDS)
@pytest.mark.parametrize("size", [0, 1, 16, 100, 1000, 3_000_000])
def test_equal_payloads_have_equal_values(kind: str, size: int) -> None:
    """Each process has other values; all have the same size; at least two, at most about 8 MiB."""
    payload = Payload(kind=kind, size=size, seed=3)  # type: ignore[arg-type]
    values = payload.values()
    assert values == payload.values()
    assert {len(value) for value in values} == {size}
    assert 2 <= len(values) <= 10_000
    assert sum(map(len, values)) <= max(8 << 20, 2 * size)
    if kind != "zeros" and 100 <= size <= 1000:
        assert len(set(values)) == len(values)
        assert values != payload.values(1)
        assert values != Payload(kind=kind, size=size, seed=4).values()  # type: ignore[arg-type]


def test_text_compresses_and_random_values_do_not() -> None:
    """For benchmarks of compression."""
    import zlib

    text, noise = (b"".join(Payload(kind=kind, size=1000).values()[:60]) for kind in ("text", "random"))
    assert len(zlib.compress(text)) < len(text) / 2
    assert len(zlib.compress(noise)) > len(noise) * 0.99


def test_lines_of_a_file_are_values(tmp_path: Path) -> None:
    """Without empty lines and line ends."""
    file = tmp_path / "lines"
    file.write_bytes(b"one\r\n\ntwo\nthree")
    assert Payload(file=str(file), size=5).values() == [b"one", b"two", b"three"]
    file.write_bytes(b"\n\n")
    with pytest.raises(ValueError, match="no lines"):
        Payload(file=str(file)).check()
    with file.open("wb") as stream:
        stream.truncate((64 << 20) + 1)
    with pytest.raises(ValueError, match="at most 64 MiB"):
        Payload(file=str(file)).check()


def test_keys() -> None:
    """The same distinct keys in every process, drawn in different orders; none by default."""
    payload = Payload(keys=300, key_size=2)
    assert len(set(payload.distinct_keys())) == 300
    assert {len(key) for key in payload.distinct_keys()} == {2}
    values = payload.values()
    drawn = payload.keyed(values)
    assert drawn == payload.keyed(values)
    assert drawn != payload.keyed(values, 1)
    assert set(drawn) == set(payload.distinct_keys())
    assert Payload().keyed([b"x"]) == [None]
    with pytest.raises(ValueError, match="cannot have 257 distinct values"):
        Payload(keys=257, key_size=1).check()
    Payload(keys=256, key_size=1).check()
    with pytest.raises(ValueError, match="at most 1000000"):
        Payload(keys=1_000_001).check()
