"""A thread whose exception is kept for the caller of `end`."""

import threading
from abc import ABC, abstractmethod


class WorkerThread(ABC, threading.Thread):
    """Works until `stopping` is set; `failure` is its exception."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name=name, daemon=True)
        self.failure: BaseException | None = None
        self.stopping = threading.Event()

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - raised by `end`
            self.failure = error

    @abstractmethod
    def work(self) -> None:
        """Work until `stopping` is set, then finish."""

    def end(self, patience_s: float) -> None:
        """Stop the thread and wait until it ends. Raises its exception."""
        self.stopping.set()
        self.join(patience_s)
        assert not self.is_alive(), f"{self} does not end"
        if self.failure is not None:
            raise self.failure
