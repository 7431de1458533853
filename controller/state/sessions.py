"""Sessions of storage nodes, extended by heartbeats, and the reports that heartbeats carry. Soft state: a new
active controller starts without it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .heartbeat_delays import HeartbeatDelays


class SessionExpiry(NamedTuple):
    """Why a session has expired. All in ms; -1 for what did not happen."""

    silent_ms: int  # since the last heartbeat, without the time in which the controller was stalled
    timeout_ms: int  # the session timeout of the node
    max_lateness_ms: int  # the largest lateness of a heartbeat in the last minute
    disconnected_ms: int = -1  # since the connection of the heartbeats closed
    is_reported_dead: bool = False  # by the supervisor of the process


class Sessions:
    """Sessions by node id. Bound: one per registered node (the caller forgets those of other nodes).

    Invariant: a node that sent a heartbeat within the last `broker.session.timeout.ms` (the floor) is live,
    unless its process was reported dead.
    """

    def __init__(self, delays: HeartbeatDelays) -> None:
        self._delays = delays
        self._last_contact_ms: dict[int, int] = {}
        self._extension_ms: dict[int, int] = {}  # by `extend`, since the node's last heartbeat
        self._disconnected_at_ms: dict[int, int] = {}  # when the connection of the heartbeats closed
        self._dead: set[int] = set()  # nodes whose process was reported dead
        # Nodes whose last contact was a registration, or the start of this controller.
        self._without_heartbeat: set[int] = set()
        self._expired_contact_ms: dict[int, int] = {}  # last contact of nodes whose session expired
        self._applied: dict[int, int] = {}  # the metadata offset that each node has applied
        self._shutdown_offsets: dict[int, int] = {}
        self.cordoned: set[int] = set()  # nodes whose online log dirs are all cordoned
        # (topic id, partition) by node: replicas in log dirs without free space
        self.full_replicas: dict[int, frozenset[tuple[bytes, int]]] = {}

    def touch(self, node_id: int, now_ms: int, metadata_offset: int = -1) -> None:
        """A heartbeat was received; the node has applied the metadata up to `metadata_offset`."""
        last_ms = self._last_contact_ms.get(node_id, self._expired_contact_ms.pop(node_id, None))
        if last_ms is not None and node_id not in self._without_heartbeat:
            self._delays.record(node_id, max(0, now_ms - last_ms), now_ms)
        self._without_heartbeat.discard(node_id)
        self._contact(node_id, now_ms, metadata_offset)

    def register(self, node_id: int, now_ms: int) -> None:
        """The node registered. Its first heartbeat waits for the metadata and does not count as late."""
        self._without_heartbeat.add(node_id)
        self._contact(node_id, now_ms, -1)

    def _contact(self, node_id: int, now_ms: int, metadata_offset: int) -> None:
        self._last_contact_ms[node_id] = now_ms
        self._extension_ms.pop(node_id, None)
        # A heartbeat may be older than the end of its connection: it waited at the controller.
        if self._disconnected_at_ms.get(node_id, now_ms) <= now_ms:
            self._disconnected_at_ms.pop(node_id, None)
        self._dead.discard(node_id)
        self._applied[node_id] = max(metadata_offset, self._applied.get(node_id, -1))

    def end(self, node_id: int) -> None:
        """The node's process was reported dead: expire its session, if there is one."""
        if node_id in self._last_contact_ms:
            self._dead.add(node_id)

    def disconnected(self, node_id: int, now_ms: int) -> None:
        """The connection of the node's heartbeats closed. A live node reconnects and sends one within the
        floor, however late its heartbeats were before."""
        if node_id in self._last_contact_ms:
            self._disconnected_at_ms[node_id] = now_ms

    def note_full(self, node_id: int, keys: Iterable[tuple[bytes, int]]) -> None:
        """Replace the set of the node's replicas in log dirs without free space."""
        self.full_replicas.pop(node_id, None)
        if full := frozenset(keys):
            self.full_replicas[node_id] = full

    def forget(self, node_id: int) -> None:
        """Drop the session, if there is one, and the lateness of the process's heartbeats."""
        self._end_session(node_id)
        self._expired_contact_ms.pop(node_id, None)
        self._delays.forget(node_id)

    def expire(self, node_id: int) -> None:
        """Drop the expired session. If the process is alive, the lateness of its next heartbeat counts, so
        that its next session is longer."""
        last_ms = self._last_contact_ms.get(node_id)
        had_heartbeat = node_id not in self._dead and node_id not in self._without_heartbeat
        self._end_session(node_id)
        if last_ms is not None and had_heartbeat:
            self._expired_contact_ms[node_id] = last_ms

    def lowest_applied(self, node_ids: Iterable[int]) -> int:
        """The metadata offset that each of these nodes has applied; -1 if one has sent no heartbeat yet."""
        return min(self._applied.get(node_id, -1) for node_id in node_ids)

    def shutdown_offset(self, node_id: int, offset: int, *, is_moved: bool) -> int:
        """The offset that the other nodes must have applied before the node may shut down: the first `offset`
        passed, or a later one after more partitions were moved off the node."""
        if is_moved:
            self._shutdown_offsets[node_id] = offset
        return self._shutdown_offsets.setdefault(node_id, offset)

    def is_live(self, node_id: int, now_ms: int) -> bool:
        """Whether the node sent a heartbeat within the floor, so that no other process may take its id."""
        last_ms = self._last_contact_ms.get(node_id)
        return last_ms is not None and node_id not in self._dead and now_ms - last_ms < self._delays.floor_ms

    def expired(self, now_ms: int) -> list[int]:
        """The nodes whose session has expired, sorted."""
        return sorted(
            node_id for node_id in self._last_contact_ms if self.expiry(node_id, now_ms) is not None
        )

    def expiry(self, node_id: int, now_ms: int) -> SessionExpiry | None:
        """Why the node's session has expired; None if it has not, or if there is none."""
        last_ms, closed_ms = self._last_contact_ms.get(node_id), self._disconnected_at_ms.get(node_id)
        if last_ms is None or self.is_live(node_id, now_ms):
            return None
        delays = self._delays
        expiry = SessionExpiry(
            now_ms - last_ms,
            delays.timeout_ms(node_id, now_ms),
            delays.longest_ms(node_id, now_ms),
            -1 if closed_ms is None else now_ms - closed_ms,
            node_id in self._dead,
        )
        has_expired = expiry.silent_ms >= expiry.timeout_ms or expiry.disconnected_ms >= delays.floor_ms
        return expiry if has_expired or expiry.is_reported_dead else None

    def timeout_ms(self, node_id: int, now_ms: int) -> int:
        """The session timeout of the node."""
        return self._delays.timeout_ms(node_id, now_ms)

    def extend(self, lost_ms: int) -> None:
        """Extend all sessions by the time in which the controller was stalled and received nothing. Bound: a
        node that sends nothing is given one session timeout in all, or a controller that stalls again and
        again would never fence it."""
        for node_id in self._last_contact_ms:
            extension_ms = self._extension_ms.get(node_id, 0)
            if extension_ms < self._delays.floor_ms:
                self._last_contact_ms[node_id] += lost_ms
                self._extension_ms[node_id] = extension_ms + lost_ms
                if node_id in self._disconnected_at_ms:
                    self._disconnected_at_ms[node_id] += lost_ms

    def restart(self, node_ids: Iterable[int], now_ms: int) -> None:
        """Start a session for each of these nodes."""
        self._last_contact_ms = dict.fromkeys(node_ids, now_ms)
        self._without_heartbeat = set(self._last_contact_ms)
        self._extension_ms.clear()

    def __len__(self) -> int:
        return len(self._last_contact_ms)

    def _end_session(self, node_id: int) -> None:
        for by_node in (
            self._last_contact_ms,
            self._extension_ms,
            self._disconnected_at_ms,
            self._applied,
            self._shutdown_offsets,
            self.full_replicas,
        ):
            by_node.pop(node_id, None)
        for nodes in (self.cordoned, self._dead, self._without_heartbeat):
            nodes.discard(node_id)
