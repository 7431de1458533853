"""When storage nodes were heard, and what they reported. Soft state: lost with the process, rebuilt by
waiting. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .heartbeat_delays import HeartbeatDelays


class Silence(NamedTuple):
    """Why a session has run out. All in ms; -1 for what did not happen."""

    silent_ms: int  # since the last heartbeat, without the time in which the controller stood still
    timeout_ms: int  # how long it may have been
    longest_late_ms: int  # the largest lateness of a heartbeat in the last minute
    gone_ms: int = -1  # since the connection of the heartbeats ended
    is_reported_dead: bool = False  # by what supervises the process


class Sessions:
    """Live sessions by node id. Bound: at most one per registered node (the caller forgets the others).

    Invariant: a node that sent a heartbeat within the floor (`broker.session.timeout.ms`) is live, unless its
    process was reported dead.
    """

    def __init__(self, delays: HeartbeatDelays) -> None:
        self._delays = delays
        self._last_contact_ms: dict[int, int] = {}
        self._given_ms: dict[int, int] = {}  # by `extend`, since the node's last heartbeat
        self._gone_ms: dict[int, int] = {}  # when the connection of the node's heartbeats ended
        self._dead: set[int] = set()  # nodes whose process was reported dead
        self._without_heartbeat: set[int] = set()  # the last contact was a registration, or is assumed
        self._fenced_ms: dict[int, int] = {}  # last contact of nodes whose session ran out
        self._seen: dict[int, int] = {}  # the metadata offset that each node has applied
        self._shutdown_offsets: dict[int, int] = {}
        self.cordoned: set[int] = set()  # nodes all of whose log dirs that work are cordoned
        # (topic id, partition) by node: those without room for records
        self.full_replicas: dict[int, frozenset[tuple[bytes, int]]] = {}

    def touch(self, node_id: int, now_ms: int, metadata_offset: int = -1) -> None:
        """A heartbeat of the node came, which has applied the metadata up to `metadata_offset`."""
        last_ms = self._last_contact_ms.get(node_id, self._fenced_ms.pop(node_id, None))
        if last_ms is not None and node_id not in self._without_heartbeat:
            self._delays.heard(node_id, max(0, now_ms - last_ms), now_ms)
        self._without_heartbeat.discard(node_id)
        self._contact(node_id, now_ms, metadata_offset)

    def register(self, node_id: int, now_ms: int) -> None:
        """The node registered. Its first heartbeat follows the metadata, in its own time, and is not late."""
        self._without_heartbeat.add(node_id)
        self._contact(node_id, now_ms, -1)

    def _contact(self, node_id: int, now_ms: int, metadata_offset: int) -> None:
        self._last_contact_ms[node_id] = now_ms
        self._given_ms.pop(node_id, None)
        if self._gone_ms.get(node_id, now_ms) <= now_ms:  # else it came before its connection ended
            self._gone_ms.pop(node_id, None)
        self._dead.discard(node_id)
        self._seen[node_id] = max(metadata_offset, self._seen.get(node_id, -1))

    def end(self, node_id: int) -> None:
        """The node's process was reported dead: its session has run out. Does nothing if there is none."""
        if node_id in self._last_contact_ms:
            self._dead.add(node_id)

    def disconnected(self, node_id: int, now_ms: int) -> None:
        """The connection on which the node's heartbeats came has ended. A live node connects again and sends
        one within the floor, however late its heartbeats were before."""
        if node_id in self._last_contact_ms:
            self._gone_ms[node_id] = now_ms

    def note_full(self, node_id: int, keys: Iterable[tuple[bytes, int]]) -> None:
        """The node has no room for records in these partitions, and in all others it has."""
        self.full_replicas.pop(node_id, None)
        if full := frozenset(keys):
            self.full_replicas[node_id] = full

    def forget(self, node_id: int) -> None:
        """The session is over, and nothing of the process counts any more; does nothing if there is none."""
        self._end_session(node_id)
        self._fenced_ms.pop(node_id, None)
        self._delays.forget(node_id)

    def run_out(self, node_id: int) -> None:
        """The session is over because the node was silent. If the process lives after all, how late its next
        heartbeat is counts: it is given longer from then on."""
        last_ms = self._last_contact_ms.get(node_id)
        was_heard = node_id not in self._dead and node_id not in self._without_heartbeat
        self._end_session(node_id)
        if last_ms is not None and was_heard:
            self._fenced_ms[node_id] = last_ms

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
        """Whether the node sent a heartbeat within the floor: its process is not replaced by another."""
        last_ms = self._last_contact_ms.get(node_id)
        return last_ms is not None and node_id not in self._dead and now_ms - last_ms < self._delays.floor_ms

    def expired(self, now_ms: int) -> list[int]:
        """Nodes whose session has run out, sorted."""
        return sorted(
            node_id for node_id in self._last_contact_ms if self.silence(node_id, now_ms) is not None
        )

    def silence(self, node_id: int, now_ms: int) -> Silence | None:
        """Why the node's session has run out; None if it has not, or if there is none."""
        last_ms, gone_at_ms = self._last_contact_ms.get(node_id), self._gone_ms.get(node_id)
        if last_ms is None or self.is_live(node_id, now_ms):
            return None
        delays = self._delays
        found = Silence(
            now_ms - last_ms,
            delays.timeout_ms(node_id, now_ms),
            delays.longest_ms(node_id, now_ms),
            -1 if gone_at_ms is None else now_ms - gone_at_ms,
            node_id in self._dead,
        )
        is_over = found.silent_ms >= found.timeout_ms or found.gone_ms >= delays.floor_ms
        return found if is_over or found.is_reported_dead else None

    def timeout_ms(self, node_id: int, now_ms: int) -> int:
        """How long the node may be silent now."""
        return self._delays.timeout_ms(node_id, now_ms)

    def extend(self, lost_ms: int) -> None:
        """Move all deadlines: the controller stood still, and could receive nothing. Bound: a node that sends
        nothing between such times gets them for one session timeout; a controller that is always late would
        never miss it."""
        for node_id in self._last_contact_ms:
            given_ms = self._given_ms.get(node_id, 0)
            if given_ms < self._delays.floor_ms:
                self._last_contact_ms[node_id] += lost_ms
                self._given_ms[node_id] = given_ms + lost_ms
                if node_id in self._gone_ms:
                    self._gone_ms[node_id] += lost_ms

    def restart(self, node_ids: Iterable[int], now_ms: int) -> None:
        """Begin with these nodes, each as if heard now."""
        self._last_contact_ms = dict.fromkeys(node_ids, now_ms)
        self._without_heartbeat = set(self._last_contact_ms)
        self._given_ms.clear()

    def __len__(self) -> int:
        return len(self._last_contact_ms)

    def _end_session(self, node_id: int) -> None:
        for facts in (
            self._last_contact_ms,
            self._given_ms,
            self._gone_ms,
            self._seen,
            self._shutdown_offsets,
            self.full_replicas,
        ):
            facts.pop(node_id, None)
        for nodes in (self.cordoned, self._dead, self._without_heartbeat):
            nodes.discard(node_id)
