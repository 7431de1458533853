"""The history checker itself: each anomaly, planted, is found, and nothing else is."""

from __future__ import annotations

from history import History, Process


def sound() -> tuple[History, Process, Process]:
    """One producer that wrote a, b, c at 0, 1, 2, and one consumer that has read nothing yet."""
    history = History()
    writer, reader = history.process("w"), history.process("r")
    for offset, value in enumerate((b"a", b"b", b"c")):
        writer.send("k", value).ok(offset)
    return history, writer, reader


def names(history: History) -> set[str]:
    return set(history.anomalies())


def test_a_sound_history_has_no_anomalies() -> None:
    """Two polls, then a seek back and all of it again; a gap in the offsets and a failed send."""
    history, writer, reader = sound()
    writer.send("k", b"f").fail()
    writer.send("k", b"i")  # nobody knows, nobody saw it
    writer.send("k", b"d").ok(7)
    reader.poll("k", [(0, b"a")])
    reader.poll("k", [(1, b"b"), (2, b"c"), (7, b"d")])
    reader.move("k")
    reader.poll("k", [(0, b"a"), (1, b"b"), (2, b"c"), (7, b"d")])
    assert history.anomalies() == {}


def test_an_unknown_send_that_turned_up_is_fine() -> None:
    """Its outcome was not known; it is read."""
    history, writer, reader = sound()
    writer.send("k", b"i")
    reader.poll("k", [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"i")])
    assert history.anomalies() == {}


def test_lost_write() -> None:
    """b was acknowledged at 1; readers passed by, and it is not there."""
    history, _, reader = sound()
    reader.poll("k", [(0, b"a")])
    reader.move("k")
    reader.poll("k", [(2, b"c")])
    assert names(history) == {"lost-write"}


def test_unseen() -> None:
    """The last acknowledged one never came."""
    history, _, reader = sound()
    reader.poll("k", [(0, b"a"), (1, b"b")])
    assert names(history) == {"unseen"}


def test_unseen_without_an_offset() -> None:
    """Acknowledged without being told where, and nowhere to be found."""
    history = History()
    history.process("w").send("k", b"x").ok(None)
    assert names(history) == {"unseen"}


def test_inconsistent_offsets() -> None:
    """The producer was told that b lies where another reader found x."""
    history, writer, reader = sound()
    writer.send("k", b"x", may_repeat=True)
    reader.poll("k", [(0, b"a"), (1, b"x"), (2, b"c")])
    reader.move("k")
    reader.poll("k", [(1, b"b")])
    assert "inconsistent-offsets" in names(history)


def test_duplicates_only_by_retries() -> None:
    """c came twice: an anomaly, unless its producer may have retried."""
    history, _, reader = sound()
    reader.poll("k", [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"c")])
    assert names(history) == {"duplicate"}
    history.processes[0].sends[-1].may_repeat = True
    assert names(history) == set()


def test_aborted_read() -> None:
    """The producer was told that it failed for good."""
    history, writer, reader = sound()
    writer.send("k", b"f").fail()
    reader.poll("k", [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"f")])
    assert names(history) == {"aborted-read"}


def test_reads_of_what_was_never_sent_or_sent_elsewhere() -> None:
    """Garbage, and a record in the wrong partition."""
    history, writer, reader = sound()
    writer.send("other", b"o")
    reader.poll("k", [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"?")])
    assert names(history) == {"never-sent"}
    reader.polls[0].reads[3] = (3, b"o")
    assert names(history) == {"wrong-partition"}


def test_polls_that_skip_or_go_back() -> None:
    """Between two polls and inside one, each way; a seek in between excuses it."""
    history, _, reader = sound()
    other = history.process("all")
    other.poll("k", [(0, b"a"), (1, b"b"), (2, b"c")])
    reader.poll("k", [(0, b"a"), (2, b"c")])
    assert names(history) == {"int-poll-skip"}
    reader.polls[0].reads[:] = [(1, b"b"), (0, b"a")]
    assert names(history) == {"int-nonmonotonic-poll"}
    reader.polls[0].reads[:] = [(0, b"a")]
    reader.poll("k", [(2, b"c")])
    assert names(history) == {"poll-skip"}
    reader.polls[1].reads[:] = [(0, b"a")]
    assert names(history) == {"nonmonotonic-poll"}
    reader.polls[1].moved = True
    assert names(history) == set()


def test_sends_that_overtake_each_other() -> None:
    """c was sent after b and lies before it; a later copy of what was retried is no reordering."""
    history = History()
    writer, reader = history.process("w"), history.process("r")
    for value in (b"a", b"b", b"c"):
        writer.send("k", value, may_repeat=True)
    reader.poll("k", [(0, b"a"), (1, b"c"), (2, b"b")])
    assert names(history) == {"nonmonotonic-send"}
    reader.polls[0].reads[:] = [(0, b"a"), (1, b"b"), (2, b"a"), (3, b"b"), (4, b"c")]
    assert names(history) == set()


def test_processes_do_not_order_each_other() -> None:
    """Two producers interleave as they like, two consumers are each somewhere else."""
    history, _, reader = sound()
    history.process("w2").send("k", b"z").ok(3)
    reader.poll("k", [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"z")])
    history.process("r2").poll("k", [(2, b"c"), (3, b"z")])
    assert history.anomalies() == {}
