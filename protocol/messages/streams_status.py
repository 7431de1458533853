"""The state of one instance of a streams application, as it reports it. Headrace's own.

Numbers that are not known are -1.
"""

from __future__ import annotations

import msgspec


class InputStatus(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An input partition of a task: the next offset to process, and the highest timestamp (ms) so far."""

    topic: str
    partition: int
    position: int = -1
    time_ms: int = -1


class StoreStatus(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A store: about how many entries, and its bytes on the disk. `position` and `end` of its changelog
    while it is restored, or is that of a standby."""

    name: str
    entries: int = -1
    size_bytes: int = -1
    position: int = -1
    end: int = -1


class TaskStatus(msgspec.Struct, array_like=True, frozen=True):
    """A task. `role`: active or standby. `records`: processed by this thread so far; `records_per_s`: in the
    last 30 to 60 s. `remaining` records of changelogs, and in how many ms they are restored."""

    sub_topology: int
    partition: int
    role: str
    state: str
    inputs: tuple[InputStatus, ...] = ()
    records: int = 0
    records_per_s: float = 0.0
    remaining: int = -1
    eta_ms: int = -1
    stores: tuple[StoreStatus, ...] = ()


class ThreadStatus(msgspec.Struct, array_like=True, frozen=True):
    """A stream thread; its ratios are parts of its time in the last 30 to 60 s."""

    name: str
    member_id: str
    state: str
    tasks: tuple[TaskStatus, ...] = ()
    process_ratio: float = 0.0
    poll_ratio: float = 0.0
    commit_ratio: float = 0.0


class OperatorStatus(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The part of the sampled time in which a node of the topology was the innermost one that ran, 0 to 1."""

    name: str
    sub_topology: int
    share: float


class InstanceStatus(msgspec.Struct, array_like=True, frozen=True):
    """An instance. `operators`: busiest first, empty if they were not sampled."""

    process_id: str
    state: str
    threads: tuple[ThreadStatus, ...] = ()
    operators: tuple[OperatorStatus, ...] = ()
