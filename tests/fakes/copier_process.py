"""A consume-transform-produce process that tests kill: each record of IN is written once to OUT.

    copier_process.py BOOTSTRAP NAME IN OUT SIZE CONSUMER_OPTIONS

NAME is the transactional id and the client id. Record N of partition P goes to partition P mod (partitions of
OUT), in transactions of up to SIZE records. Prints "copied N" after each commit; SIGTERM stops it cleanly.
"""

import ast
import signal
import sys
import threading
from typing import Any

import headrace
from headrace import errors
from process_log import log_as_asked

PATIENCE_S = 60.0


class Copier:
    """The loop of an application."""

    def __init__(
        self, bootstrap: str, name: str, source: str, target: str, size: int, **options: Any
    ) -> None:
        self._target = target
        common = {"client_id": name, "request_timeout_ms": 5_000}
        self._producer = headrace.Producer(
            bootstrap, transactional_id=name, transaction_timeout_ms=20_000, **common
        )
        self._consumer = headrace.Consumer(
            source,
            bootstrap=bootstrap,
            group=f"{target}-copiers",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            enable_auto_commit=False,
            max_poll_records=size,
            **common,
            **options,
        )
        self._width = len(self._producer.partitions_for(target))

    def run(self, is_over: threading.Event) -> None:
        """Copy until the parent ends the process. First abort the open transaction of an earlier process,
        because it blocks read_committed consumers."""
        self._producer.init_transactions()
        while not is_over.is_set():
            records = self._consumer.poll(0.2)
            if records:
                self._copy(records)
        self._consumer.close()
        self._producer.close()

    def _copy(self, records: list[Any]) -> None:
        try:
            with self._producer.transaction() as txn:
                for record in records:
                    txn.send(self._target, record.value, partition=record.partition % self._width)
                txn.commit_offsets(self._consumer)
        except errors.ApiTimeoutError:
            raise  # unknown outcome: the next process with this transactional id resolves it
        except errors.TransactionAbortableError as error:
            tell(f"aborted {error}")
            self._rewind()
        else:
            tell(f"copied {len(records)}")

    def _rewind(self) -> None:
        """Seek to the group's committed offsets."""
        for tp, committed in self._consumer.committed(timeout=PATIENCE_S).items():
            self._consumer.seek(tp, 0 if committed is None else committed.offset)


def tell(line: str) -> None:
    """Write a line to the parent process."""
    sys.stdout.write(line.replace("\n", " ") + "\n")
    sys.stdout.flush()


def main(bootstrap: str, name: str, source: str, target: str, size: str, options: str) -> None:
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    Copier(bootstrap, name, source, target, int(size), **ast.literal_eval(options)).run(is_over)


if __name__ == "__main__":
    log_as_asked()
    main(*sys.argv[1:])
