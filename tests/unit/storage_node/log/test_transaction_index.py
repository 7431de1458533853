"""The transaction index is kept right when a log that has one is cut."""

from __future__ import annotations

from fake_files import FakeFiles
from headrace.storage_node.log.transaction_index import (
    AbortedTransaction,
    parse_transaction_index,
    truncate_transaction_index,
)

ENTRIES = [AbortedTransaction(0, 5, 0, 9, 3), AbortedTransaction(0, 6, 4, 20, 15)]
CONTENT = b"".join(
    entry.version.to_bytes(2, "big") + b"".join(value.to_bytes(8, "big") for value in entry[1:])
    for entry in ENTRIES
)


def test_entries_of_34_bytes() -> None:
    """Whole entries are read, a cut one is left out."""
    assert len(CONTENT) == 68
    assert parse_transaction_index(CONTENT) == ENTRIES
    assert parse_transaction_index(CONTENT[:-1]) == ENTRIES[:1]


def test_truncation_drops_transactions_that_end_later() -> None:
    """A transaction whose marker is gone is open again, not aborted."""
    files = FakeFiles()
    files.put("/x.txnindex", CONTENT + b"torn")
    truncate_transaction_index(files, "/x.txnindex", 20)
    assert parse_transaction_index(files.content("/x.txnindex")) == ENTRIES[:1]
    assert files.content("/x.txnindex") == CONTENT[:34]
    truncate_transaction_index(files, "/missing.txnindex", 20)
