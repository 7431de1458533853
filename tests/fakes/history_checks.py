"""An independent check of a history: Jepsen's Kafka anomalies for producers, consumers and transactions.

Each check is one pass over the operations. The log of a key is built from the reads of all polls, failed ones
included (a poll must always be safe), and from the acknowledged offsets of committed sends.
The version order of a key is its non-empty offsets, numbered densely: gaps are legal.
Source: RELIABILITY 1.1.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from history import History, Key, Op, Outcome, Process, Send
from history_cycles import cycles

# Informational: other producers may write in between, and transactions do not isolate writers.
ALLOWED = frozenset(("int-send-skip", "G0"))

Found = Iterator[tuple[str, str]]  # name of the anomaly, text


def found_in(history: History, *, with_allowed: bool = True) -> Found:
    """All anomalies, in an order that depends on the history only. Cycles of writes (G0, always allowed) are
    searched only with `with_allowed`, because this takes longest."""
    check = _Check(history)
    yield from check.inconsistent_offsets()
    yield from check.duplicates()
    yield from check.reads()
    yield from check.lost_writes()
    yield from check.unseen()
    for process in history.processes:
        yield from check.order_of_polls(process)
        yield from check.order_of_sends(process)
    yield from check.read_cycles()
    if with_allowed:
        yield from check.write_cycles()


class _Check:
    def __init__(self, history: History) -> None:
        self._history = history
        sends = [send for op in history.ops for send in op.sends]
        self._writer = {send.value: send for send in sends}
        assert len(self._writer) == len(sends), "unique values"
        self._ok_read: dict[Key, dict[bytes, None]] = defaultdict(dict)
        self._polled: dict[Key, dict[bytes, None]] = defaultdict(dict)
        for op in history.ops:
            for poll in op.polls:
                values = dict.fromkeys(value for _, value in poll.reads)
                self._polled[poll.key].update(values)
                if op.outcome is Outcome.OK:
                    self._ok_read[poll.key].update(values)
        self._log = self._logs()
        self._offsets = {key: sorted(log) for key, log in self._log.items()}
        self._index = {
            key: {offset: index for index, offset in enumerate(offsets)}
            for key, offsets in self._offsets.items()
        }
        self._places: dict[Key, dict[bytes, list[int]]] = defaultdict(lambda: defaultdict(list))
        for key, log in self._log.items():
            for offset in sorted(log):
                for value in log[offset]:
                    self._places[key][value].append(self._index[key][offset])

    def _is_gone(self, key: Key, index: int) -> bool:
        """Whether the record with that number and all records before it may have been deleted."""
        return self._offsets[key][index] < self._history.starts.get(key, 0)

    def _may_have_lain_before(self, key: Key, index: int) -> bool:
        """Whether an unread record may have preceded the one with that number, and was deleted."""
        offsets = self._offsets[key]
        deleted = min(offsets[index], self._history.starts.get(key, 0))
        return bisect_left(offsets, deleted) < deleted

    def _logs(self) -> dict[Key, dict[int, dict[bytes, None]]]:
        """The observed values, by key and offset."""
        logs: dict[Key, dict[int, dict[bytes, None]]] = defaultdict(lambda: defaultdict(dict))
        for op in self._history.ops:
            for poll in op.polls:
                for offset, value in poll.reads:
                    logs[poll.key][offset][value] = None
            if self._must_commit(op):
                for send in op.sends:
                    if send.offset is not None:
                        logs[send.key][send.offset][send.value] = None
        return logs

    def _must_commit(self, op: Op) -> bool:
        """Whether the operation was acknowledged, or its outcome is unknown and one of its values was
        read."""
        if op.outcome is not Outcome.INFO:
            return op.outcome is Outcome.OK
        return any(send.value in self._ok_read[send.key] for send in op.sends)

    # --- the checks ---------------------------------------------------------------------------------------

    def inconsistent_offsets(self) -> Found:
        """Two values at one offset."""
        for key, log in self._log.items():
            for offset, values in sorted(log.items()):
                if len(values) > 1:
                    yield "inconsistent-offsets", f"{key} at {offset}: {list(values)}"

    def duplicates(self) -> Found:
        """One value at two offsets, unless its producer may have retried without being idempotent."""
        for key, values in self._places.items():
            for value, places in values.items():
                send = self._writer.get(value)
                if len(places) > 1 and (send is None or not send.may_repeat):
                    yield "duplicate", f"{key}: {value!r} at {places}"

    def reads(self) -> Found:
        """Reads of values that were never sent, sent to another key, failed, or not committed yet."""
        for op in self._history.ops:
            sent = {(send.key, send.value) for send in op.sends}
            for poll in op.polls:
                key = poll.key
                for offset, value in poll.reads:
                    send, faults = self._writer.get(value), []
                    if send is None:
                        faults.append(("never-sent", ""))
                    elif send.key != key:
                        faults.append(("wrong-partition", f" was sent to {send.key}"))
                    elif send.op.outcome is Outcome.FAIL and op.outcome is Outcome.OK:
                        faults.append(("G1a", " had failed"))
                    if sent and (key, value) in sent:
                        faults.append(("precommitted-read", " was sent by the same operation"))
                    for name, text in faults:
                        yield name, f"{op.process.name} {key} at {offset}: {value!r}{text}"

    def lost_writes(self) -> Found:
        """Values that no consumer has read, although one has read the first copy of a later value."""
        for key, values in self._places.items():
            read = self._ok_read[key]
            newest = max((places[0] for value, places in values.items() if value in read), default=-1)
            for value, places in values.items():
                send = self._writer.get(value)
                if places[-1] > newest or value in read or send is None or self._is_gone(key, places[-1]):
                    continue
                if self._must_commit(send.op):
                    yield "lost-write", f"{key}: {value!r} at {send.offset}, readers were at {newest}"

    def unseen(self) -> Found:
        """Acknowledged values that no consumer has read."""
        for send in self._writer.values():
            if send.outcome is not Outcome.OK or send.value in self._polled[send.key]:
                continue
            if send.offset is None or send.offset >= self._history.starts.get(send.key, 0):
                yield "unseen", f"{send.key}: {send.value!r} at {send.offset}"

    def order_of_polls(self, process: Process) -> Found:
        """Each poll continues after the previous one; only successful polls advance the position."""
        last: dict[Key, int] = {}
        for op in process.ops:
            for poll in op.polls:
                if poll.moved or poll.key in op.rebalance_keys:
                    last.pop(poll.key, None)
                if op.outcome is not Outcome.OK:
                    continue
                index = self._index.get(poll.key, {})
                before = last.get(poll.key)
                inside = ""
                for offset, value in poll.reads:
                    step = 1 if before is None else index[offset] - before
                    is_excused = bool(inside) and poll.key in op.rebalance_keys
                    is_excused |= step > 1 and self._is_gone(poll.key, index[offset] - 1)
                    if step != 1 and not is_excused:
                        name = "poll-skip" if step > 1 else "nonmonotonic-poll"
                        yield (
                            inside + name,
                            f"{process.name} {poll.key}: step {step} to {value!r} at {offset}",
                        )
                    before, inside = index[offset], "int-"
                if before is not None:
                    last[poll.key] = before

    def write_cycles(self) -> Found:
        """G0: operations in a cycle of write dependencies."""
        after: dict[Op, dict[Op, None]] = defaultdict(dict)
        for key, log in self._log.items():
            before: Op | None = None
            for offset in self._offsets[key]:
                send = self._writer.get(next(iter(log[offset])))
                if send is None:
                    continue
                if before is not None and before is not send.op:
                    after[before][send.op] = None
                before = send.op
        yield from _named("G0", after)

    def read_cycles(self) -> Found:
        """G1c: operations in a cycle of read dependencies. Cycles of both reads and writes are not an
        anomaly, because writers are not isolated."""
        after: dict[Op, dict[Op, None]] = defaultdict(dict)
        for op in self._history.ops:
            for poll in op.polls:
                for _, value in poll.reads:
                    send = self._writer.get(value)
                    if send is not None and send.op is not op and op.outcome is not Outcome.FAIL:
                        after[send.op][op] = None
        yield from _named("G1c", after)

    def order_of_sends(self, process: Process) -> Found:
        """First copies are in the order of the sends; later copies are retries. The first copy of a
        retried record may have been deleted before it was read."""
        last: dict[Key, tuple[int, Send]] = {}
        for op in process.ops:
            for send in op.sends:
                places = self._places[send.key].get(send.value)
                if send.outcome is Outcome.FAIL or not places:
                    continue
                if send.key in last:
                    yield from self._order_of_two(process, last[send.key], (places[0], send))
                newest = last.get(send.key, (-1, send))
                last[send.key] = newest if newest[0] > places[0] else (places[0], send)

    def _order_of_two(self, process: Process, first: tuple[int, Send], second: tuple[int, Send]) -> Found:
        (place, send), (next_place, next_send) = first, second
        inside = "int-" if send.op is next_send.op else ""
        text = f"{process.name} {send.key}: {next_send.value!r} at {next_place}, {send.value!r} at {place}"
        is_deleted = send.may_repeat and self._may_have_lain_before(send.key, next_place)
        if next_place <= place and not is_deleted:
            yield inside + "nonmonotonic-send", text
        elif inside and next_place > place + 1:
            yield "int-send-skip", text


def _named(name: str, after: Mapping[Op, Collection[Op]]) -> Found:
    for cycle in cycles(after):
        yield name, " -> ".join(f"{op.process.name}#{op.process.ops.index(op)}" for op in cycle)
