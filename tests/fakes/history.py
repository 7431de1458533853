"""A history of client operations: sequential processes and the outcomes of their operations, also as JSONL.

Every value is sent once, to one key; a key is any name of one partition. `history_checks.py` checks a
history; neither depends on the code under test. Source: RELIABILITY 1.1; jepsen.tests.kafka.
"""

from __future__ import annotations

import enum
import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

Key = Hashable
Read = tuple[int, bytes]  # offset, value


class Outcome(enum.Enum):
    """The outcome of a send or transaction. INFO: unknown."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


# The outcome of an operation by its error's name, without "Error" or "Exception". All other errors are INFO:
# a wrong OK or FAIL would report false anomalies.
OUTCOMES = MappingProxyType(
    dict.fromkeys(
        (
            "Timeout", "ApiTimeout", "RequestTimedOut", "DeliveryTimeout", "Network", "Closed", "Disconnect",
            "UnknownServer", "NotLeaderOrFollower", "IllegalState", "EndTxn", "NotEnoughReplicasAfterAppend",
        ),
        Outcome.INFO,
    )
    | dict.fromkeys(
        (
            "TopicAuthorization", "ClusterAuthorization", "GroupAuthorization", "ProducerFenced",
            "OutOfOrderSequenceNumber", "InErrorState", "InvalidProducerEpoch", "InvalidTopic",
            "InvalidReplicationFactor", "NotController", "UnknownTopicOrPartition", "BrokerNotAvailable",
            "AddOffsetsToTxn", "TxnOffsetCommit", "RebalanceInProgress", "MessageTooLarge", "BufferExhausted",
        ),
        Outcome.FAIL,
    )
)  # fmt: skip
# Fatal errors of a client: its process ends.
ENDS_PROCESS = frozenset(
    (
        "TopicAuthorization", "ClusterAuthorization", "GroupAuthorization", "ProducerFenced",
        "OutOfOrderSequenceNumber", "InErrorState",
    )
)  # fmt: skip


def error_name(error: BaseException | str) -> str:
    """The error's name in the outcome table."""
    name = error if isinstance(error, str) else type(error).__name__
    return name.removesuffix("Error").removesuffix("Exception")


def outcome_of(error: BaseException | str | None) -> Outcome:
    """The outcome of an operation that ended with `error`, None for success."""
    return Outcome.OK if error is None else OUTCOMES.get(error_name(error), Outcome.INFO)


def outcome_of_abort(commit_error: BaseException | str | None, *, was_aborted: bool) -> Outcome:
    """The outcome of a transaction that was not committed; `commit_error` is None if no commit was tried."""
    if commit_error is None or was_aborted or error_name(commit_error) == "InvalidTxnState":
        return Outcome.FAIL
    return Outcome.INFO


@dataclass(eq=False, slots=True)
class Send:
    """One value handed to a producer. `may_repeat` says that a retry may have written it again."""

    op: Op
    key: Key
    value: bytes
    may_repeat: bool
    offset: int | None = None

    @property
    def outcome(self) -> Outcome:
        """The outcome of its operation."""
        return self.op.outcome

    def ok(self, offset: int | None) -> None:
        """Acknowledged, with an offset unless acks=0."""
        self.op.outcome, self.offset = Outcome.OK, offset

    def fail(self) -> None:
        """Known to be not written."""
        self.op.outcome = Outcome.FAIL

    def ended(self, error: BaseException | str | None, offset: int | None = None) -> None:
        """Set the outcome by the outcome table."""
        self.op.ended(error)
        if error is None:
            self.offset = offset


@dataclass(eq=False, slots=True)
class Poll:
    """The records of one key that one poll returned; `moved` if the process has sought since the last
    poll."""

    op: Op
    key: Key
    reads: list[Read]
    moved: bool


@dataclass(eq=False, slots=True)
class Op:
    """One operation of a process: a send, a poll, both in a transaction, or a change of what is read.

    `f` is send, poll, txn, assign, subscribe or seek; `keys` are those that the last three name.
    """

    process: Process
    f: str
    time: int
    outcome: Outcome = Outcome.INFO
    steps: list[Send | Poll] = field(default_factory=list)  # `sends` and `polls` together, in their order
    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    keys: tuple[Key, ...] = ()
    rebalance_keys: tuple[Key, ...] = ()  # assigned, revoked or lost while it ran
    error: str | None = None

    def send(self, key: Key, value: bytes, *, may_repeat: bool = False) -> Send:
        """Send as a part of this operation."""
        send = Send(self, key, value, may_repeat)
        self.steps.append(send)
        self.sends.append(send)
        return send

    def poll(self, key: Key, reads: list[Read]) -> Poll:
        """Add the records of one key to this operation."""
        poll = Poll(self, key, reads, key in self.process.moved)
        self.process.moved.discard(key)
        self.steps.append(poll)
        self.polls.append(poll)
        return poll

    def ended(self, error: BaseException | str | None) -> None:
        """Set the outcome of the operation by the outcome table."""
        self.outcome = outcome_of(error)
        self.error = None if error is None else error_name(error)


@dataclass(eq=False)
class Process:
    """The operations of one sequential client. After a crash the client continues as another process."""

    name: str
    history: History
    ops: list[Op] = field(default_factory=list)
    moved: set[Key] = field(default_factory=set)  # keys whose next poll may begin anywhere
    _assigned: frozenset[Key] = frozenset()

    @property
    def sends(self) -> list[Send]:
        """All operations of this kind, in order."""
        return [send for op in self.ops for send in op.sends]

    @property
    def polls(self) -> list[Poll]:
        """All operations of this kind, in order."""
        return [poll for op in self.ops for poll in op.polls]

    def send(self, key: Key, value: bytes, *, may_repeat: bool = False) -> Send:
        """Begin a send; the caller sets the outcome of the result."""
        return self.begin("send").send(key, value, may_repeat=may_repeat)

    def poll(self, key: Key, reads: list[Read]) -> None:
        """Add a poll with records of one key, in this order."""
        op = self.begin("poll")
        op.outcome = Outcome.OK
        op.poll(key, reads)

    def txn(self) -> Op:
        """Sends and polls of one transaction; without a call of `ended` its outcome is unknown."""
        return self.begin("txn")

    def move(self, *keys: Key) -> None:
        """Note changed positions: the next poll may begin at any offset."""
        self._change("seek", keys)
        self.moved.update(keys)

    def assign(self, keys: Iterable[Key], f: str = "assign") -> None:
        """Read these keys from now on. A key that is assigned again later may begin at any offset."""
        keys = tuple(keys)
        self._change(f, keys)
        self.moved.update(self._assigned.difference(keys))
        self._assigned = frozenset(keys)

    def subscribe(self, keys: Iterable[Key]) -> None:
        """As `assign`, but rebalances may revoke keys at any time: operations have those in `rebalance_keys`,
        and only these keys may continue at any offset."""
        self.assign(keys, "subscribe")

    def begin(self, f: str) -> Op:
        """Begin an operation; its outcome is not known yet."""
        op = Op(self, f, self.history.clock())
        self.ops.append(op)
        self.history.ops.append(op)
        return op

    def _change(self, f: str, keys: tuple[Key, ...]) -> None:
        op = self.begin(f)
        op.outcome, op.keys = Outcome.OK, keys


class History:
    """All processes of one run, and their operations in the order in which they began."""

    def __init__(self, clock: Callable[[], int] = lambda: 0) -> None:
        self.clock = clock
        # log start offsets: records below may have been deleted, read or unread
        self.starts: dict[Key, int] = {}
        self.processes: list[Process] = []
        self.ops: list[Op] = []

    def process(self, name: str) -> Process:
        """A new process."""
        self.processes.append(Process(name, self))
        return self.processes[-1]

    def only(self, wanted: Callable[[Any], bool]) -> History:
        """The operations on these keys."""

        left = History(self.clock)
        left.starts = dict(self.starts)
        left.ops = [
            op for op in self.ops if all(wanted(key) for key in (*op.keys, *[step.key for step in op.steps]))
        ]
        is_left = set(left.ops)  # never iterated
        for process in self.processes:
            left.process(process.name).ops = [op for op in process.ops if op in is_left]
        return left

    def anomalies(self) -> dict[str, list[str]]:
        """The anomalies by name, except those that are always allowed.

        `unseen` counts as one: the history must end with a process that reads everything.
        """
        from history_checks import ALLOWED, found_in

        found: dict[str, list[str]] = defaultdict(list)
        for name, text in found_in(self, with_allowed=False):
            if name not in ALLOWED:
                found[name].append(text)
        return dict(found)

    # --- as JSONL -----------------------------------------------------------------------------------------

    def lines(self) -> Iterator[str]:
        """One JSON object for each operation: index, time, process, type, f, value, rebalance_keys, error.
        The first line has the start offsets, if there are any."""
        if self.starts:
            yield json.dumps({"starts": list(self.starts.items())})
        for index, op in enumerate(self.ops):
            facts = {
                "index": index,
                "time": op.time,
                "process": op.process.name,
                "type": op.outcome.value,
                "f": op.f,
                "value": [_step(step) for step in op.steps] if not op.keys else list(op.keys),
                "rebalance_keys": list(op.rebalance_keys),
                "error": op.error,
            }
            yield json.dumps(facts)

    @classmethod
    def of_lines(cls, lines: Iterable[str]) -> History:
        """Read the output of `lines`. Keys have JSON types."""
        now = [0]
        history, processes = cls(lambda: now[0]), dict[str, Process]()
        for line in lines:
            facts = json.loads(line)
            if "starts" in facts:
                history.starts.update(facts["starts"])
                continue
            now[0], name = facts["time"], facts["process"]
            process = processes.get(name) or processes.setdefault(name, history.process(name))
            _replay(process, facts)
        return history


def _step(step: Send | Poll) -> list[Any]:
    if isinstance(step, Send):
        return ["send", step.key, [step.offset, _text(step.value)], step.may_repeat]
    return ["poll", step.key, [[offset, _text(value)] for offset, value in step.reads]]


def _replay(process: Process, facts: dict[str, Any]) -> None:
    f, value = facts["f"], facts["value"]
    if f == "seek":
        process.move(*value)
    elif f in ("assign", "subscribe"):
        process.assign(value, f)
    else:
        op = process.begin(f)
        op.outcome, op.error = Outcome(facts["type"]), facts["error"]
        op.rebalance_keys = tuple(facts["rebalance_keys"])
        for kind, key, what, *may_repeat in value:
            if kind == "send":
                op.send(key, _bytes(what[1]), may_repeat=may_repeat[0]).offset = what[0]
            else:
                op.poll(key, [(offset, _bytes(text)) for offset, text in what])


def _text(value: bytes) -> str:
    return value.decode("latin-1")


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")
