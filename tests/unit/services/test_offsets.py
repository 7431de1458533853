"""kcat's offset notation."""

import pytest
from headrace.services.cli.offsets import OffsetSpec, parse_offset, read_range, start_offset


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", OffsetSpec("beginning")),
        ("earliest", OffsetSpec("beginning")),
        ("end", OffsetSpec("end")),
        ("latest", OffsetSpec("end")),
        ("0", OffsetSpec("absolute", 0)),
        ("42", OffsetSpec("absolute", 42)),
        ("-10", OffsetSpec("tail", 10)),
        ("s@1700000000000", OffsetSpec("from_time", 1_700_000_000_000)),
        ("e@5", OffsetSpec("until_time", 5)),
        (str(2**63 - 1), OffsetSpec("absolute", 2**63 - 1)),
    ],
)
def test_offset_notation(text: str, expected: OffsetSpec) -> None:
    """Every form that kcat accepts."""
    assert parse_offset(text) == expected


@pytest.mark.parametrize(
    "text", ["", "x", "--1", "1.5", "s@", "s@-1", "@5", "e@x", "1 ", str(2**63), "-", "٣"]
)
def test_invalid_offsets_are_errors(text: str) -> None:
    """A typo is never offset 0."""
    with pytest.raises(ValueError, match="offset"):
        parse_offset(text)


def test_stored_offset_needs_a_group() -> None:
    """Without a group there is no committed offset."""
    with pytest.raises(ValueError, match="group"):
        parse_offset("stored")


def test_range_of_start_and_end_time() -> None:
    """`-o s@1 -o e@9` reads a span of time; the order does not matter."""
    assert read_range(("e@9", "s@1")).until_ms == 9
    assert read_range(("e@9", "s@1")).start == OffsetSpec("from_time", 1)


def test_range_defaults_to_the_beginning() -> None:
    """Without a start, with or without an end."""
    assert read_range(()).start == OffsetSpec("beginning")
    assert read_range(("e@9",)).start == OffsetSpec("beginning")


@pytest.mark.parametrize("texts", [("1", "2"), ("e@1", "e@2")])
def test_two_starts_or_two_ends_are_errors(texts: tuple[str, ...]) -> None:
    """They contradict each other."""
    with pytest.raises(ValueError, match="more than one"):
        read_range(texts)


@pytest.mark.parametrize(
    ("text", "by_time", "expected"),
    [
        ("beginning", None, 100),
        ("end", None, 200),
        ("150", None, 150),
        ("7", None, 100),
        ("999", None, 200),
        ("-10", None, 190),
        ("-1000", None, 100),
        ("-0", None, 200),
        ("s@5", 120, 120),
        ("s@5", None, 200),
    ],
)
def test_start_offsets_stay_inside_the_log(text: str, by_time: int | None, expected: int) -> None:
    """The log holds offsets 100 to 199: every start is inside, or at its end."""
    assert start_offset(parse_offset(text), 100, 200, by_time) == expected
