"""Voter sets: those in the metadata log, and the majority of one. Pure.

A voter set takes effect when it is appended, committed or not, so a truncation restores the previous set. One
voter is added or removed at a time: the majorities of consecutive sets then always intersect.
Source: KIP-853; Ongaro's thesis, 4.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.control import VoterDescription, VoterEndpoint, VoterSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LISTENER = "CONTROLLER"
BOOTSTRAP_OFFSET = -1  # of the voter set that the disk was formatted with: it is not in the log


class ReplicaKey(NamedTuple):
    """A replica of the metadata log. A new disk has a new directory id, and so is another replica."""

    replica_id: int
    directory_id: bytes


class Endpoint(NamedTuple):
    """Where a controller listens."""

    host: str
    port: int


def voter(key: ReplicaKey, endpoint: Endpoint) -> VoterDescription:
    """The description of a voter."""
    return VoterDescription(key.replica_id, key.directory_id, (VoterEndpoint(LISTENER, *endpoint),), 0, 1)


def key_of(description: VoterDescription) -> ReplicaKey:
    """The key of a voter."""
    return ReplicaKey(description.voter_id, description.directory_id)


def keys_of(voters: VoterSet) -> tuple[ReplicaKey, ...]:
    """The keys of all voters, in their order."""
    return tuple(key_of(each) for each in voters.voters)


def endpoint_of(voters: VoterSet, replica_id: int) -> Endpoint | None:
    """The endpoint of the voter with this id; None if there is none."""
    for each in voters.voters:
        if each.voter_id == replica_id and each.endpoints:
            return Endpoint(each.endpoints[0].host, each.endpoints[0].port)
    return None


def with_voter(voters: VoterSet, added: VoterDescription) -> VoterSet:
    """The set with this voter, which replaces one with the same id."""
    others = [each for each in voters.voters if each.voter_id != added.voter_id]
    return VoterSet(tuple(sorted([*others, added], key=lambda each: each.voter_id)))


def without_voter(voters: VoterSet, key: ReplicaKey) -> VoterSet:
    """The set without this voter."""
    return VoterSet(tuple(each for each in voters.voters if key_of(each) != key))


def majority_value(values: Iterable[int]) -> int:
    """The largest value that a majority of `values` reaches. Errors: AssertionError if there are none."""
    ordered = sorted(values)
    assert ordered, "a majority of no values"
    return ordered[(len(ordered) - 1) // 2]


class VoterHistory:
    """The voter sets of one log by the offset of their record, oldest first.

    Invariant: offsets rise strictly.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, VoterSet]] = []
        self.latest_keys: tuple[ReplicaKey, ...] = ()  # of the latest set

    @property
    def latest(self) -> VoterSet:
        """The voter set in effect; empty if none is known."""
        return self._entries[-1][1] if self._entries else VoterSet(())

    @property
    def latest_offset(self) -> int:
        """The offset of its record; BOOTSTRAP_OFFSET if it is not in the log."""
        return self._entries[-1][0] if self._entries else BOOTSTRAP_OFFSET

    @property
    def entries(self) -> Sequence[tuple[int, VoterSet]]:
        """(offset, voter set), oldest first."""
        return tuple(self._entries)

    def at(self, end_offset: int) -> VoterSet:
        """The voter set in effect at `end_offset`; empty if none is known."""
        latest = VoterSet(())
        for offset, voters in self._entries:
            if offset >= end_offset:
                break
            latest = voters
        return latest

    def add(self, offset: int, voters: VoterSet) -> None:
        """The log has this set at `offset`."""
        assert not self._entries or offset > self._entries[-1][0], f"{offset} after {self._entries[-1][0]}"
        self._entries.append((offset, voters))
        self.latest_keys = keys_of(voters)

    def truncate_from_end(self, end_offset: int) -> None:
        """The log was truncated to `end_offset`."""
        while self._entries and self._entries[-1][0] >= end_offset:
            self._entries.pop()
        self.latest_keys = keys_of(self.latest)

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the sets that are in effect at no offset from `start_offset` on."""
        while len(self._entries) > 1 and self._entries[1][0] < start_offset:
            del self._entries[0]

    def restart(self, offset: int, voters: VoterSet) -> None:
        """Forget all but this set, of a snapshot whose last offset is `offset`."""
        self._entries = [(offset, voters)] if voters.voters else []
        self.latest_keys = keys_of(self.latest)
