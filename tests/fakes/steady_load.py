"""A producer and a consumer that run steadily while servers restart; every error counts.

As a program: `steady_load.py BOOTSTRAP TOPIC STOP_FILE` prints its progress, and its outcome once the file
exists, as lines of JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headrace

if TYPE_CHECKING:
    from collections.abc import Mapping

INTERVAL_S = 0.02
END_TIMEOUT_S = 60.0
PROGRESS_S = 0.5


@dataclass
class Outcome:
    """`longest_s`: from send to acknowledgement. `missing` were acknowledged and not consumed."""

    acknowledged: int = 0
    consumed: int = 0
    missing: int = 0
    repeated: int = 0
    longest_s: float = 0.0
    errors: list[str] = field(default_factory=list)


class SteadyLoad:
    """Runs from its creation until `stop`."""

    def __init__(self, bootstrap: str, topic: str, config: Mapping[str, Any] | None = None) -> None:
        self._bootstrap, self._topic, self._config = bootstrap, topic, dict(config or {})
        self._is_over = threading.Event()
        self._has_sent = threading.Event()
        self._acknowledged: set[int] = set()
        self._consumed: list[int] = []
        self._outcome = Outcome()
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,)) for work in (self._produce, self._consume)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def acknowledged(self) -> int:
        """The number of records so far."""
        return len(self._acknowledged)

    @property
    def errors(self) -> list[str]:
        """What failed so far."""
        return self._outcome.errors

    def stop(self) -> Outcome:
        """Produce no more, consume the rest."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(2 * END_TIMEOUT_S)
            assert not thread.is_alive()
        seen = set(self._consumed)
        outcome = self._outcome
        outcome.acknowledged, outcome.consumed = len(self._acknowledged), len(seen)
        outcome.missing = len(self._acknowledged - seen)
        outcome.repeated = len(self._consumed) - len(seen)
        return outcome

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - every error counts
            self._outcome.errors.append(f"{work.__name__}: {error!r}")

    def _produce(self) -> None:
        try:
            with headrace.Producer(self._bootstrap, config={"acks": "all", **self._config}) as producer:
                number = 0
                while not self._is_over.wait(INTERVAL_S):
                    began = time.monotonic()
                    producer.send(self._topic, str(number).encode()).result(END_TIMEOUT_S)
                    self._outcome.longest_s = max(self._outcome.longest_s, time.monotonic() - began)
                    self._acknowledged.add(number)
                    number += 1
        finally:
            self._has_sent.set()

    def _consume(self) -> None:
        options = {"auto.offset.reset": "earliest", **self._config}
        consumer = headrace.Consumer(self._topic, group="steady", bootstrap=self._bootstrap, config=options)
        with consumer:
            gives_up_at = float("inf")
            while time.monotonic() < gives_up_at:
                self._consumed += [int(record.value) for record in consumer.poll(0.5)]
                if self._has_sent.is_set():
                    if self._acknowledged <= set(self._consumed):
                        return
                    gives_up_at = min(gives_up_at, time.monotonic() + END_TIMEOUT_S)


def report(facts: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def main(bootstrap: str, topic: str, stop_file: str) -> None:
    load = SteadyLoad(bootstrap, topic)
    waiting = threading.Event()
    while not Path(stop_file).exists():
        waiting.wait(PROGRESS_S)
        report({"acknowledged": load.acknowledged, "errors": load.errors})
    report(asdict(load.stop()))


if __name__ == "__main__":
    main(*sys.argv[1:])
