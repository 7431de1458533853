"""What storage nodes said of themselves lately. Soft state: lost with the process, rebuilt by waiting.
Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONG_AGO_MS = -(1 << 62)  # before every clock began, even when lost time is given back


class Sessions:
    """Live sessions by node id. Bound: at most one per registered node (the caller forgets the others)."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._last_contact_ms: dict[int, int] = {}
        self._given_ms: dict[int, int] = {}  # by `extend`, since a node was heard
        self._seen: dict[int, int] = {}  # the metadata offset that each node has applied
        self._shutdown_offsets: dict[int, int] = {}
        self.cordoned: set[int] = set()  # nodes all of whose log dirs that work are cordoned
        # (topic id, partition) by node: those without room for records
        self.full_replicas: dict[int, frozenset[tuple[bytes, int]]] = {}

    def touch(self, node_id: int, now_ms: int, metadata_offset: int = -1) -> None:
        """The node was heard, and has applied the metadata up to `metadata_offset`."""
        self._last_contact_ms[node_id] = now_ms
        self._given_ms.pop(node_id, None)
        self._seen[node_id] = max(metadata_offset, self._seen.get(node_id, -1))

    def end(self, node_id: int) -> None:
        """The session has run out, whenever the node was heard last; does nothing if there is none."""
        if node_id in self._last_contact_ms:
            self._last_contact_ms[node_id] = _LONG_AGO_MS

    def note_full(self, node_id: int, keys: Iterable[tuple[bytes, int]]) -> None:
        """The node has no room for records in these partitions, and in all others it has."""
        self.full_replicas.pop(node_id, None)
        if full := frozenset(keys):
            self.full_replicas[node_id] = full

    def forget(self, node_id: int) -> None:
        """The session is over; does nothing if there is none."""
        for facts in (
            self._last_contact_ms,
            self._given_ms,
            self._seen,
            self._shutdown_offsets,
            self.full_replicas,
        ):
            facts.pop(node_id, None)
        self.cordoned.discard(node_id)

    def lowest_seen(self, node_ids: Iterable[int]) -> int:
        """The metadata offset that all these nodes, at least one, have applied; -1: one was not heard yet."""
        return min(self._seen.get(node_id, -1) for node_id in node_ids)

    def shutdown_offset(self, node_id: int, offset: int, *, is_moved: bool) -> int:
        """What the others must have seen before the node may end: the first `offset` asked with, or a later
        one if more was moved off the node."""
        if is_moved:
            self._shutdown_offsets[node_id] = offset
        return self._shutdown_offsets.setdefault(node_id, offset)

    def is_live(self, node_id: int, now_ms: int) -> bool:
        """Whether the node was heard within the session timeout."""
        last_ms = self._last_contact_ms.get(node_id)
        return last_ms is not None and now_ms - last_ms < self._timeout_ms

    def expired(self, now_ms: int) -> list[int]:
        """Nodes whose session has run out, sorted."""
        return sorted(node_id for node_id in self._last_contact_ms if not self.is_live(node_id, now_ms))

    def extend(self, lost_ms: int) -> None:
        """Move all deadlines: nobody could be heard while the controller itself stood still. Bound: a node
        that is not heard between such times gets them for one session timeout; a controller that is always
        late would never miss it."""
        for node_id in self._last_contact_ms:
            given_ms = self._given_ms.get(node_id, 0)
            if given_ms < self._timeout_ms:
                self._last_contact_ms[node_id] += lost_ms
                self._given_ms[node_id] = given_ms + lost_ms

    def restart(self, node_ids: Iterable[int], now_ms: int) -> None:
        """Begin anew with these nodes, each as if heard now."""
        self._last_contact_ms = dict.fromkeys(node_ids, now_ms)
        self._given_ms.clear()

    def __len__(self) -> int:
        return len(self._last_contact_ms)
