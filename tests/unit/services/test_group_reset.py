"""New offsets of a group: rules, scopes, times, CSV."""

import pytest
from headrace.protocol.errors import ConfigError
from headrace.protocol.model import TopicPartition
from headrace.services.group_reset import Bounds, Move, Rule, csv_of, moved, offsets_of_csv, scope_of, time_of

TP = TopicPartition("t", 0)
READ, FRESH = Bounds(10, 100, 40, 60), Bounds(10, 100, None)


@pytest.mark.parametrize(
    ("rule", "bounds", "number", "new"),
    [
        (Rule.EARLIEST, READ, 0, 10),
        (Rule.LATEST, READ, 0, 100),
        (Rule.CURRENT, READ, 0, 40),
        (Rule.CURRENT, FRESH, 0, 100),
        (Rule.OFFSET, READ, 70, 70),
        (Rule.OFFSET, FRESH, 5, 10),
        (Rule.OFFSET, READ, 101, 100),
        (Rule.SHIFT, READ, -5, 35),
        (Rule.SHIFT, READ, 5, 45),
        (Rule.SHIFT, READ, -50, 10),
        (Rule.SHIFT, READ, 2**70, 100),
        (Rule.TIME, READ, 0, 60),
        (Rule.TIME, FRESH, 0, 100),
        (Rule.FILE, READ, 9, 10),
        (Rule.FILE, READ, 99, 99),
    ],
)
def test_reset_rules(rule: Rule, bounds: Bounds, number: int, new: int) -> None:
    """The new offset lies in the partition; a remark names each offset that was moved there."""
    move = moved(rule, TP, bounds, number)
    assert (move.tp, move.old, move.new) == (TP, bounds.committed, new)
    asked = {Rule.OFFSET: number, Rule.FILE: number, Rule.SHIFT: number + (bounds.committed or 0)}
    is_as_asked = asked.get(rule, new) == new and (rule, bounds) != (Rule.TIME, FRESH)
    assert bool(move.remark) != is_as_asked


def test_shift_needs_a_committed_offset() -> None:
    """Without one there is no base."""
    with pytest.raises(ConfigError, match="t-0 cannot be shifted"):
        moved(Rule.SHIFT, TP, FRESH, 1)


def test_topic_scopes() -> None:
    """A topic, or some of its partitions."""
    assert scope_of("t") == ("t", ())
    assert scope_of("t:2,0,2") == ("t", (2, 0))
    for bad in ("", ":1", "t:", "t:x", "t:-1", "t:1,,2", "t:²"):
        with pytest.raises(ConfigError):
            scope_of(bad)


def test_timestamps() -> None:
    """UTC without a zone, as in Kafka."""
    assert time_of("1970-01-02T00:00:00.001") == 86_400_001
    assert time_of("1970-01-02T00:00:00+01:00") == 82_800_000
    for bad in ("yesterday", "1969-12-31T00:00:00Z", ""):
        with pytest.raises(ConfigError):
            time_of(bad)


def test_csv_round_trip() -> None:
    """Exports of several groups have the group id first, which may hold any character."""
    moves = [Move(TP, None, 5), Move(TopicPartition("t", 1), 3, 6)]
    assert csv_of(moves) == "t,0,5\nt,1,6\n"
    assert offsets_of_csv(csv_of(moves), "g") == {TP: 5, TopicPartition("t", 1): 6}
    assert offsets_of_csv('"a, b",t,0,5\n\nother,t,0,9\n', "a, b") == {TP: 5}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no line"),
        ("other,t,0,9\n", "no line for group 'g'"),
        ("t,0\n", "line 1"),
        ("t,0,1\nt,x,1\n", "line 2"),
        ("t,0,-1\n", "line 1"),
        ("t,0,9223372036854775808\n", "line 1"),
        ("t,0,1\nt,0,2\n", "line 2 repeats t-0"),
    ],
)
def test_invalid_csv_is_an_error(text: str, why: str) -> None:
    """The error names the line."""
    with pytest.raises(ConfigError, match=why):
        offsets_of_csv(text, "g")
