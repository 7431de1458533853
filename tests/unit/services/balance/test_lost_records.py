"""What an unclean election loses, by leader epochs; the count is that of a scan of all records."""

from collections.abc import Callable

from headrace.services.balance.lost_records import ReplicaLog, best, common_end, verdicts
from hypothesis import given
from hypothesis import strategies as st


def log(node_id: int, end: int, *epochs: tuple[int, int], start: int = 0, watermark: int = 0) -> ReplicaLog:
    return ReplicaLog(node_id, start, end, watermark, epochs)


def test_the_shorter_of_two_equal_logs_loses_the_rest() -> None:
    """Both were written by one leader: the longer one loses nothing and is recommended."""
    short, long = verdicts([log(1, 100, (3, 0)), log(2, 150, (3, 0))])
    assert (short.diverges_at, short.lost) == (100, 50)
    assert (long.diverges_at, long.lost) == (None, 0)
    assert best([short, long]) is long


def test_a_longer_log_of_an_old_leader_is_not_recommended() -> None:
    """Node 1 has 60 records of epoch 3 that no one confirmed, node 2 ten of the newer epoch 5."""
    old, new = verdicts([log(1, 150, (3, 0), watermark=90), log(2, 100, (3, 0), (5, 90), watermark=90)])
    assert (old.diverges_at, old.lost, old.lost_committed) == (90, 10, 0)
    assert (new.diverges_at, new.lost, new.lost_committed) == (90, 60, 0)
    assert best([old, new]) is new


def test_committed_records_count_first() -> None:
    """The known high watermark tells that consumers may have read what node 2 lacks."""
    full, short = verdicts([log(1, 100, (3, 0), watermark=95), log(2, 80, (3, 0), watermark=80)])
    assert (short.lost, short.lost_committed) == (20, 15)
    assert best([short, full]) is full


def test_records_that_two_others_have_count_once() -> None:
    """Nodes 2 and 3 have the same twenty records, and 3 ten more."""
    first, *_ = verdicts([log(1, 80, (3, 0)), log(2, 100, (3, 0)), log(3, 110, (3, 0))])
    assert first.lost == 30


def test_retention_is_no_loss() -> None:
    """Node 2 still has old records that node 1 has deleted: they are not lost by its election."""
    first, second = verdicts([log(1, 100, (3, 50), start=50), log(2, 90, (3, 0))])
    assert (first.lost, second.lost) == (0, 10)
    assert best([]) is None


@st.composite
def histories(draw: Callable[..., object]) -> list[dict[int, int]]:
    """Logs as leaders write them: each epoch continues the log of one replica, and some others copy a part of
    it. A log is the leader epoch of each of its offsets."""
    count = draw(st.integers(2, 4))
    logs: list[list[int]] = [[] for _ in range(count)]
    for epoch in range(draw(st.integers(1, 4))):
        leader = draw(st.integers(0, count - 1))
        logs[leader] += [epoch] * draw(st.integers(0, 5))
        for follower in range(count):
            if follower != leader and draw(st.booleans()):
                same = 0
                while logs[leader][same : same + 1] == logs[follower][same : same + 1] != []:
                    same += 1
                copied = draw(st.integers(same, len(logs[leader])))
                logs[follower] = logs[leader][:copied]
    return [dict(enumerate(each)) for each in logs]


@given(histories())
def test_the_loss_is_that_of_a_scan(records: list[dict[int, int]]) -> None:
    """Offset and epoch identify a record. What a replica loses are the records that others have from the
    first difference on."""
    logs = [as_log(number, each) for number, each in enumerate(records)]
    for number, found in enumerate(verdicts(logs)):
        lost = set()
        for other, each in enumerate(records):
            if other != number:
                same = 0
                while same in each and each[same] == records[number].get(same):
                    same += 1
                assert common_end(logs[number], logs[other]) == same
                lost |= {(offset, epoch) for offset, epoch in each.items() if offset >= same}
        assert found.lost == len(lost)


def as_log(node_id: int, records: dict[int, int]) -> ReplicaLog:
    epochs: list[tuple[int, int]] = []
    for offset, epoch in records.items():
        if not epochs or epochs[-1][0] != epoch:
            epochs.append((epoch, offset))
    return ReplicaLog(node_id, 0, len(records), 0, tuple(epochs))
