"""The history checker itself: each anomaly, planted, is found, and nothing else is."""

import pytest
from history import ENDS_PROCESS, History, Op, Outcome, Process, outcome_of, outcome_of_abort
from history_checks import found_in


def sound() -> tuple[History, Process, Process]:
    """One producer that wrote a, b, c at 0, 1, 2, and one consumer that has read nothing yet."""
    history = History()
    writer, reader = history.process("w"), history.process("r")
    for offset, value in enumerate((b"a", b"b", b"c")):
        writer.send("k", value).ok(offset)
    return history, writer, reader


@pytest.fixture
def history() -> History:
    return History()


def names(history: History) -> set[str]:
    return set(history.anomalies())


def test_a_sound_history_has_no_anomalies() -> None:
    """Two polls, then a seek back and all of it again; a gap in the offsets and a failed send."""
    history, writer, reader = sound()
    writer.send("k", b"f").fail()
    writer.send("k", b"i")  # unknown outcome, and never read
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
    assert names(history) == {"lost-write", "unseen"}


def test_deleted_records_are_not_reported_as_lost() -> None:
    """Records below the log start may be missing, others not."""
    history, _, reader = sound()
    reader.poll("k", [(0, b"a")])
    reader.poll("k", [(2, b"c")])
    for start, found in ((0, 3), (1, 3), (2, 0)):
        history.starts["k"] = start
        assert names(history) == set(("lost-write", "unseen", "poll-skip")[:found])


def test_unread_last_record_is_found() -> None:
    """The last acknowledged one never came."""
    history, _, reader = sound()
    reader.poll("k", [(0, b"a"), (1, b"b")])
    assert names(history) == {"unseen"}


def test_unseen_without_an_offset(history: History) -> None:
    """A record that was acknowledged without an offset, and never read."""
    history.process("w").send("k", b"x").ok(None)
    assert names(history) == {"unseen"}


def test_inconsistent_offsets() -> None:
    """b was acknowledged at the offset at which a consumer read x."""
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


def test_g1a() -> None:
    """A record that failed for the producer was read."""
    history, writer, reader = sound()
    writer.send("k", b"f").fail()
    reader.poll("k", [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"f")])
    assert names(history) == {"G1a"}


def test_reads_of_values_never_sent_or_sent_to_another_key() -> None:
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


def test_sends_that_overtake_each_other(history: History) -> None:
    """c was sent after b and lies before it; a later copy of what was retried is no reordering."""
    writer, reader = history.process("w"), history.process("r")
    for value in (b"a", b"b", b"c"):
        writer.send("k", value, may_repeat=True)
    reader.poll("k", [(0, b"a"), (1, b"c"), (2, b"b")])
    assert names(history) == {"nonmonotonic-send"}
    reader.polls[0].reads[:] = [(0, b"a"), (1, b"b"), (2, b"a"), (3, b"b"), (4, b"c")]
    assert names(history) == set()


def test_a_first_copy_may_have_been_deleted(history: History) -> None:
    """b was written, deleted before it was read, and written again by a retry, where retries are allowed."""
    writer, reader = history.process("w"), history.process("r")
    for value in (b"b", b"c"):
        writer.send("k", value, may_repeat=True)
    reader.poll("k", [(1, b"c"), (2, b"b")])
    assert names(history) == {"nonmonotonic-send"}
    history.starts["k"] = 1
    assert names(history) == set()
    writer.sends[0].may_repeat = False
    assert names(history) == {"nonmonotonic-send"}


def test_a_first_copy_at_an_unread_offset(history: History) -> None:
    """All deleted records before c had been read: the first copy of b is after c."""
    writer, reader = history.process("w"), history.process("r")
    for value in (b"a", b"b", b"c"):
        writer.send("k", value, may_repeat=True)
    reader.poll("k", [(0, b"a"), (1, b"c"), (2, b"b")])
    history.starts["k"] = 1
    assert names(history) == {"nonmonotonic-send"}
    history.starts["k"] = 3
    assert names(history) == {"nonmonotonic-send"}


def test_processes_do_not_order_each_other() -> None:
    """Two producers interleave as they like, two consumers are each somewhere else."""
    history, _, reader = sound()
    history.process("w2").send("k", b"z").ok(3)
    reader.poll("k", [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"z")])
    history.process("r2").poll("k", [(2, b"c"), (3, b"z")])
    assert history.anomalies() == {}


def test_a_lost_write_with_an_unknown_outcome() -> None:
    """One of two values of an unknown transaction was read: so both must be there."""
    history, writer, reader = sound()
    op = writer.txn()
    op.send("k", b"d").offset = 3
    op.send("k", b"e").offset = 4
    writer.send("k", b"f").ok(5)
    reader.poll("k", [(0, b"a"), (1, b"b"), (2, b"c")])
    reader.move("k")
    reader.poll("k", [(5, b"f")])
    assert names(history) == set(), "the outcome of the commit is unknown"
    reader.polls[-1].reads[:] = [(4, b"e"), (5, b"f")]
    assert names(history) == {"lost-write"}
    op.outcome = Outcome.FAIL
    assert names(history) == {"G1a"}


def test_a_value_behind_the_first_copy_of_the_newest_is_not_lost() -> None:
    """b may only be read at its second place, after everything that was read."""
    history, writer, reader = sound()
    writer.sends[1].may_repeat = True
    other = history.process("other")
    failed = other.begin("poll")
    failed.poll("k", [(3, b"b")])
    reader.poll("k", [(0, b"a")])
    reader.move("k")
    reader.poll("k", [(2, b"c")])
    assert names(history) == set()
    failed.polls[0].reads[:] = [(1, b"b")]
    assert names(history) == {"lost-write"}, "only a failed poll has read it"


def test_precommitted_read(history: History) -> None:
    """A transaction that reads what it has written itself."""
    op = history.process("p").txn()
    op.send("k", b"a").offset = 0
    op.poll("k", [(0, b"a")])
    op.ended(None)
    assert names(history) == {"precommitted-read"}


def test_a_failed_poll_is_safe_but_moves_no_cursor() -> None:
    """It may show an inconsistency; but the next poll begins where the last good one ended."""
    history, _, reader = sound()
    reader.poll("k", [(0, b"a")])
    failed = reader.begin("poll")
    failed.poll("k", [(1, b"b"), (2, b"c")])
    failed.ended("Timeout")
    reader.poll("k", [(1, b"b"), (2, b"c")])
    assert names(history) == set()
    history.process("w2").send("k", b"x").ok(2)
    assert names(history) == {"inconsistent-offsets", "unseen", "lost-write"}


def test_anomalies_that_a_rebalance_explains() -> None:
    """Gaps in one poll and before it, for keys that were revoked or assigned meanwhile, and no others."""
    history, _, reader = sound()
    history.process("all").poll("k", [(0, b"a"), (1, b"b"), (2, b"c")])
    reader.subscribe(["k"])
    reader.poll("k", [(0, b"a"), (2, b"c")])
    assert names(history) == {"int-poll-skip"}
    reader.ops[-1].rebalance_keys = ("k",)
    assert names(history) == set()
    reader.poll("k", [(0, b"a")])
    assert names(history) == {"nonmonotonic-poll"}
    reader.ops[-1].rebalance_keys = ("other",)
    assert names(history) == {"nonmonotonic-poll"}
    reader.ops[-1].rebalance_keys = ("k",)
    assert names(history) == set()


def two_transactions() -> tuple[History, Op, Op]:
    """Each has sent one value to a key of its own, and both committed."""
    history = History()
    ops = [history.process(name).txn() for name in ("p", "q")]
    for op, key, value in zip(ops, "xy", (b"a", b"b"), strict=True):
        op.send(key, value).offset = 0
        op.ended(None)
    final = history.process("final")
    final.poll("x", [(0, b"a")])
    final.poll("y", [(0, b"b")])
    return history, *ops


def test_g1c() -> None:
    """Two transactions that read of each other; of one direction alone, or in two that failed, it is fine."""
    history, first, second = two_transactions()
    first.poll("y", [(0, b"b")])
    assert names(history) == set()
    second.poll("x", [(0, b"a")])
    assert history.anomalies() == {"G1c": ["p#0 -> q#0"]}
    second.outcome = Outcome.FAIL
    assert names(history) == {"G1a"}


def test_g1c_over_many(history: History) -> None:
    """The shortest cycle of each component is reported, also of long histories."""
    ops = [history.process(f"p{number}").txn() for number in range(1_200)]  # more than Python may nest calls
    for number, op in enumerate(ops):
        op.send(f"k{number}", b"%d" % number).offset = 0
        op.poll(f"k{number - 1}", [(0, b"%d" % (number - 1))] if number else [])
        op.ended(None)
    history.process("final").poll("k1199", [(0, b"1199")])
    assert names(history) == set()
    ops[7].poll("k9", [(0, b"9")])
    ops[0].poll("k1199", [(0, b"1199")])
    assert history.anomalies() == {"G1c": ["p9#0 -> p7#0 -> p8#0"]}


def test_g0_is_reported_and_allowed(history: History) -> None:
    """Each of two transactions has a write after one of the other."""
    first, second = (history.process(name).txn() for name in ("p", "q"))
    for key, values in (("x", (b"a", b"b")), ("y", (b"c", b"d"))):
        for offset, value in enumerate(values):
            op = (first, second)[(offset + (key == "y")) % 2]
            op.send(key, value).offset = offset
        history.process("final").poll(key, list(enumerate(values)))
    for op in (first, second):
        op.ended(None)
    assert "G0" in dict(found_in(history))
    assert "G0" not in dict(found_in(history, with_allowed=False))
    assert names(history) == set()


def test_an_assignment_without_the_key_lets_it_begin_anywhere() -> None:
    """Dropped and taken back; with the key in both, nothing is excused."""
    history, _, reader = sound()
    history.process("all").poll("k", [(0, b"a"), (1, b"b"), (2, b"c")])
    reader.assign(["k"])
    reader.poll("k", [(0, b"a")])
    reader.assign(["k", "other"])
    reader.poll("k", [(2, b"c")])
    assert names(history) == {"poll-skip"}
    reader.assign(["other"])
    reader.assign(["k"])
    reader.poll("k", [(0, b"a")])
    assert names(history) == {"poll-skip"}, "no nonmonotonic-poll"


def test_sends_inside_one_operation(history: History) -> None:
    """In the wrong order; with something in between, which is no fault."""
    writer, reader = history.process("w"), history.process("r")
    op = writer.txn()
    op.send("k", b"a")
    op.send("k", b"c")
    op.ended(None)
    history.process("w2").send("k", b"b").ok(1)
    reader.poll("k", [(0, b"a"), (1, b"b"), (2, b"c")])
    assert names(history) == set()
    reader.polls[0].reads[:] = [(0, b"c"), (1, b"b"), (2, b"a")]
    assert names(history) == {"int-nonmonotonic-send"}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        ("TimeoutError", "info"),
        ("NotLeaderOrFollowerError", "info"),
        ("SomethingNewError", "info"),
        ("NotControllerError", "fail"),
        ("ProducerFencedError", "fail"),
        ("UnknownTopicOrPartitionError", "fail"),
    ],
)
def test_the_outcome_table(error: str | None, outcome: str) -> None:
    """What is not certain is not called failed."""
    assert outcome_of(error).value == outcome
    assert all(outcome_of(name) is Outcome.FAIL for name in ENDS_PROCESS)


def test_outcomes_of_aborts() -> None:
    """Only an abort that failed after a commit was tried leaves it open."""
    assert outcome_of_abort(None, was_aborted=False) is Outcome.FAIL
    assert outcome_of_abort("TimeoutError", was_aborted=True) is Outcome.FAIL
    assert outcome_of_abort("TimeoutError", was_aborted=False) is Outcome.INFO
    assert outcome_of_abort("InvalidTxnStateError", was_aborted=False) is Outcome.FAIL


def test_jsonl_and_back() -> None:
    """The same findings, and the same lines again."""
    history, writer, reader = sound()
    op = writer.txn()
    op.send("k", b"\xff\x00").offset = 3
    op.ended("TimeoutError")
    reader.assign(["k"])
    reader.poll("k", [(0, b"a")])
    reader.move("k")
    reader.poll("k", [(2, b"c"), (3, b"\xff\x00")])
    history.starts["k"] = 1
    lines = list(history.lines())
    again = History.of_lines(lines)
    assert list(again.lines()) == lines
    assert again.anomalies() == history.anomalies() != {}


def test_the_history_of_some_keys() -> None:
    """What is about another key, even in part, is left out; what is wrong with that shows no more."""
    history, writer, reader = sound()
    reader.poll("k", [(0, b"a"), (1, b"b"), (2, b"c")])
    count = len(history.ops)
    reader.poll("other", [(0, b"never sent")])
    reader.move("other")
    both = writer.txn()
    both.send("k", b"x")
    both.send("other", b"y")
    assert history.anomalies() != {}
    left = history.only(lambda key: key == "k")
    assert left.ops == history.ops[:count]
    assert [process.name for process in left.processes] == [process.name for process in history.processes]
    assert left.anomalies() == {}
