"""What clients did and saw, and an independent check of it: Jepsen's Kafka anomalies for producers and plain
consumers. It knows nothing of the code under test.

Every value is sent once, to one key, where a key is any name of one partition. Each process records its own
sends and polls in its own order. Source: RELIABILITY 1.1; jepsen.tests.kafka.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

Key = Hashable
Read = tuple[int, bytes]  # offset, value


class Outcome(enum.Enum):
    """INFO: nobody knows whether it was written."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(eq=False)
class Send:
    """One value handed to a producer. `may_repeat` says that a retry may have written it again."""

    process: str
    key: Key
    value: bytes
    may_repeat: bool
    outcome: Outcome = Outcome.INFO
    offset: int | None = None

    def ok(self, offset: int | None) -> None:
        """Acknowledged, at an offset unless the producer is not told any."""
        self.outcome, self.offset = Outcome.OK, offset

    def fail(self) -> None:
        """Certainly not written."""
        self.outcome = Outcome.FAIL


@dataclass(eq=False)
class Poll:
    """The records of one key that one poll returned; `moved` if the process sought since the poll before."""

    process: str
    key: Key
    reads: list[Read]
    moved: bool


@dataclass(eq=False)
class Process:
    """The view of one sequential actor."""

    name: str
    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    _moved: set[Key] = field(default_factory=set)

    def send(self, key: Key, value: bytes, *, may_repeat: bool = False) -> Send:
        """About to send; set the outcome on what is returned."""
        self.sends.append(Send(self.name, key, value, may_repeat))
        return self.sends[-1]

    def poll(self, key: Key, reads: list[Read]) -> None:
        """Records of one key came, in this order."""
        self.polls.append(Poll(self.name, key, reads, key in self._moved))
        self._moved.discard(key)

    def move(self, key: Key) -> None:
        """The position was changed: the next poll may begin anywhere."""
        self._moved.add(key)


class History:
    """All processes of one run. `anomalies` may be asked once they have ended."""

    def __init__(self) -> None:
        self.processes: list[Process] = []

    def process(self, name: str) -> Process:
        """A new process."""
        self.processes.append(Process(name))
        return self.processes[-1]

    def anomalies(self) -> dict[str, list[str]]:
        """By name of the anomaly what was found; empty when the history is sound.

        `unseen` counts as one: the history must end with a process that reads everything.
        """
        found: dict[str, list[str]] = defaultdict(list)
        for name, text in _Check(self).run():
            found[name].append(text)
        return dict(found)


class _Check:
    def __init__(self, history: History) -> None:
        self._processes = history.processes
        self._sends = {send.value: send for process in self._processes for send in process.sends}
        assert len(self._sends) == sum(len(process.sends) for process in self._processes), "unique values"
        self._log: dict[Key, dict[int, set[bytes]]] = defaultdict(lambda: defaultdict(set))
        self._read: dict[Key, set[bytes]] = defaultdict(set)
        for process in self._processes:
            for poll in process.polls:
                for offset, value in poll.reads:
                    self._log[poll.key][offset].add(value)
                    self._read[poll.key].add(value)
        for send in self._sends.values():
            if send.outcome is Outcome.OK and send.offset is not None:
                self._log[send.key][send.offset].add(send.value)
        # the version order: offsets that hold something, numbered densely
        self._index = {
            key: {offset: index for index, offset in enumerate(sorted(log))} for key, log in self._log.items()
        }
        self._places: dict[tuple[Key, bytes], list[int]] = defaultdict(list)
        for key, log in self._log.items():
            for offset in sorted(log):
                for value in log[offset]:
                    self._places[key, value].append(self._index[key][offset])

    def run(self) -> Iterator[tuple[str, str]]:
        yield from self._inconsistent_offsets()
        yield from self._reads_of_nothing()
        yield from self._duplicates()
        yield from self._lost()
        for process in self._processes:
            yield from self._order_of_polls(process)
            yield from self._order_of_sends(process)

    def _inconsistent_offsets(self) -> Iterator[tuple[str, str]]:
        for key, log in self._log.items():
            for offset, values in log.items():
                if len(values) > 1:
                    yield "inconsistent-offsets", f"{key} at {offset}: {sorted(values)}"

    def _reads_of_nothing(self) -> Iterator[tuple[str, str]]:
        for key, values in self._read.items():
            for value in values:
                send = self._sends.get(value)
                if send is None:
                    yield "never-sent", f"{key}: {value!r}"
                elif send.key != key:
                    yield "wrong-partition", f"{value!r} was sent to {send.key}, read from {key}"
                elif send.outcome is Outcome.FAIL:
                    yield "aborted-read", f"{key}: {value!r} had failed"

    def _duplicates(self) -> Iterator[tuple[str, str]]:
        for (key, value), places in self._places.items():
            send = self._sends.get(value)
            if len(places) > 1 and (send is None or not send.may_repeat):
                yield "duplicate", f"{key}: {value!r} at {places}"

    def _lost(self) -> Iterator[tuple[str, str]]:
        newest: dict[Key, int] = defaultdict(lambda: -1)
        for (key, value), places in self._places.items():
            if value in self._read[key]:
                newest[key] = max(newest[key], places[0])
        for send in self._sends.values():
            if send.outcome is not Outcome.OK or send.value in self._read[send.key]:
                continue
            places = self._places.get((send.key, send.value), [])
            is_passed = bool(places) and places[-1] <= newest[send.key]
            yield "lost-write" if is_passed else "unseen", f"{send.key}: {send.value!r} at {send.offset}"

    def _order_of_polls(self, process: Process) -> Iterator[tuple[str, str]]:
        last: dict[Key, int] = {}
        for poll in process.polls:
            index = self._index.get(poll.key, {})
            before = None if poll.moved else last.get(poll.key)
            inside = ""
            for offset, value in poll.reads:
                step = 1 if before is None else index[offset] - before
                if step != 1:
                    name = "poll-skip" if step > 1 else "nonmonotonic-poll"
                    yield inside + name, f"{process.name} {poll.key}: step {step} to {value!r} at {offset}"
                before, inside = index[offset], "int-"
            if before is not None:
                last[poll.key] = before

    def _order_of_sends(self, process: Process) -> Iterator[tuple[str, str]]:
        """First copies must lie in the order of the sends; later copies are repeats."""
        last: dict[Key, tuple[int, bytes]] = {}
        for send in process.sends:
            places = self._places.get((send.key, send.value))
            if send.outcome is Outcome.FAIL or not places:
                continue
            place, value = last.get(send.key, (-1, b""))
            if places[0] <= place:
                text = f"{process.name} {send.key}: {send.value!r} at {places[0]}, {value!r} at {place}"
                yield "nonmonotonic-send", text
            last[send.key] = max((place, value), (places[0], send.value))
