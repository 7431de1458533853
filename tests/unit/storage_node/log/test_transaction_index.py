"""The transaction index: which aborted transactions a read must return."""

from headrace.storage_node.log.transaction_index import (
    AbortedTransaction,
    TransactionIndex,
    parse_transaction_index,
)

# Two that overlap and one behind them; the last stable offset is where the next open one begins.
ENTRIES = [
    AbortedTransaction(0, 5, 3, 9, 4),
    AbortedTransaction(0, 6, 4, 20, 21),
    AbortedTransaction(0, 5, 25, 30, 31),
]
CONTENT = b"".join(
    entry.version.to_bytes(2, "big") + b"".join(value.to_bytes(8, "big") for value in entry[1:])
    for entry in ENTRIES
)


def collected(offset: int, upto: int) -> tuple[list[tuple[int, int]], bool]:
    found: list[tuple[int, int]] = []
    is_complete = TransactionIndex(ENTRIES).collect(offset, upto, found)
    return found, is_complete


def test_entries_of_34_bytes() -> None:
    """Whole entries are read, a partial one is ignored."""
    assert len(CONTENT) == 34 * 3
    assert parse_transaction_index(CONTENT) == ENTRIES
    assert parse_transaction_index(CONTENT[:-1]) == ENTRIES[:2]
    index = TransactionIndex(ENTRIES)
    assert (len(index), list(index), index.to_bytes()) == (3, ENTRIES, CONTENT)


def test_truncation_removes_transactions_that_end_later() -> None:
    """A transaction without its marker is open again."""
    for end_offset, left in ((31, 3), (30, 2), (21, 2), (20, 1), (9, 0), (0, 0)):
        index = TransactionIndex(ENTRIES)
        index.truncate(end_offset)
        assert list(index) == ENTRIES[:left]


def test_collect_finds_overlapping_transactions() -> None:
    """From the first offset to the marker, both inclusive."""
    assert collected(0, 3) == ([], True)
    assert collected(0, 4) == ([(5, 3)], True)
    assert collected(0, 5) == ([(5, 3), (6, 4)], True)
    assert collected(9, 10) == ([(5, 3), (6, 4)], True)
    assert collected(10, 20) == ([(6, 4)], True)
    assert collected(10, 22) == ([(6, 4)], True)
    assert collected(21, 25) == ([], True)
    assert collected(21, 31) == ([(5, 25)], True)
    assert collected(21, 40) == ([(5, 25)], False), "later segments may have more"
    assert collected(31, 40) == ([], False)
