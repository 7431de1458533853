"""Who votes: the voter sets that the metadata log names, and what a majority of one is. Pure.

A voter set counts from the moment it is in the log, committed or not, so a truncation brings back the set
before it. Only one voter comes or goes at a time: majorities of neighbouring sets then always meet.
Source: KIP-853; Ongaro's thesis, 4.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.control import VoterDescription, VoterEndpoint, VoterSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LISTENER = "CONTROLLER"
BOOTSTRAP_OFFSET = -1  # of the voters that the disk was formatted with: they are not in the log yet


class ReplicaKey(NamedTuple):
    """A replica of the metadata log. A new disk has a new directory id, and is another replica."""

    replica_id: int
    directory_id: bytes


class Endpoint(NamedTuple):
    """Where a controller listens."""

    host: str
    port: int


def voter(key: ReplicaKey, endpoint: Endpoint) -> VoterDescription:
    """The description of a voter of today's protocol."""
    return VoterDescription(key.replica_id, key.directory_id, (VoterEndpoint(LISTENER, *endpoint),), 0, 1)


def key_of(description: VoterDescription) -> ReplicaKey:
    """The key of a voter."""
    return ReplicaKey(description.voter_id, description.directory_id)


def keys_of(voters: VoterSet) -> tuple[ReplicaKey, ...]:
    """The keys of all voters, in their order."""
    return tuple(key_of(each) for each in voters.voters)


def endpoint_of(voters: VoterSet, replica_id: int) -> Endpoint | None:
    """Where the voter with this id listens; None if there is none."""
    for each in voters.voters:
        if each.voter_id == replica_id and each.endpoints:
            return Endpoint(each.endpoints[0].host, each.endpoints[0].port)
    return None


def with_voter(voters: VoterSet, added: VoterDescription) -> VoterSet:
    """The set with this voter in place of any with its id."""
    others = [each for each in voters.voters if each.voter_id != added.voter_id]
    return VoterSet(tuple(sorted([*others, added], key=lambda each: each.voter_id)))


def without_voter(voters: VoterSet, key: ReplicaKey) -> VoterSet:
    """The set without this voter."""
    return VoterSet(tuple(each for each in voters.voters if key_of(each) != key))


def majority_value(values: Iterable[int]) -> int:
    """The largest value that a majority of `values` reaches. Errors: AssertionError if there are none."""
    ordered = sorted(values)
    assert ordered, "there is no majority of nobody"
    return ordered[(len(ordered) - 1) // 2]


class VoterHistory:
    """The voter sets of one log by the offset of their record, oldest first.

    Invariant: offsets rise strictly.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, VoterSet]] = []
        self.latest_keys: tuple[ReplicaKey, ...] = ()  # who votes now

    @property
    def latest(self) -> VoterSet:
        """The set that counts now; empty if none is known."""
        return self._entries[-1][1] if self._entries else VoterSet(())

    @property
    def latest_offset(self) -> int:
        """The offset of its record; BOOTSTRAP_OFFSET if it is not in the log."""
        return self._entries[-1][0] if self._entries else BOOTSTRAP_OFFSET

    @property
    def entries(self) -> Sequence[tuple[int, VoterSet]]:
        """All of them, oldest first."""
        return tuple(self._entries)

    def at(self, end_offset: int) -> VoterSet:
        """The set that the log below `end_offset` names; empty if it names none."""
        found = VoterSet(())
        for offset, voters in self._entries:
            if offset >= end_offset:
                break
            found = voters
        return found

    def add(self, offset: int, voters: VoterSet) -> None:
        """The record at `offset` names this set."""
        assert not self._entries or offset > self._entries[-1][0], f"{offset} after {self._entries[-1][0]}"
        self._entries.append((offset, voters))
        self.latest_keys = keys_of(voters)

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the sets at and after `end_offset`."""
        while self._entries and self._entries[-1][0] >= end_offset:
            self._entries.pop()
        self.latest_keys = keys_of(self.latest)

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the sets that counted for no offset from `start_offset` on."""
        while len(self._entries) > 1 and self._entries[1][0] < start_offset:
            del self._entries[0]

    def restart(self, offset: int, voters: VoterSet) -> None:
        """Know only this set: that of a snapshot whose last offset is `offset`."""
        self._entries = [(offset, voters)] if voters.voters else []
        self.latest_keys = keys_of(self.latest)
