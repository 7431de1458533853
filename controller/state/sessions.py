"""When each storage node was last heard. Soft state: lost with the process, rebuilt by waiting. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Sessions:
    """Live sessions by node id. Bound: at most one per registered node (the caller forgets the others)."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._last_contact_ms: dict[int, int] = {}

    def touch(self, node_id: int, now_ms: int) -> None:
        """The node was heard."""
        self._last_contact_ms[node_id] = now_ms

    def forget(self, node_id: int) -> None:
        """The session is over; does nothing if there is none."""
        self._last_contact_ms.pop(node_id, None)

    def is_live(self, node_id: int, now_ms: int) -> bool:
        """Whether the node was heard within the session timeout."""
        last_ms = self._last_contact_ms.get(node_id)
        return last_ms is not None and now_ms - last_ms < self._timeout_ms

    def expired(self, now_ms: int) -> list[int]:
        """Nodes whose session has run out, sorted."""
        return sorted(node_id for node_id in self._last_contact_ms if not self.is_live(node_id, now_ms))

    def extend(self, lost_ms: int) -> None:
        """Move all deadlines: nobody could be heard while the controller itself stood still."""
        for node_id in self._last_contact_ms:
            self._last_contact_ms[node_id] += lost_ms

    def restart(self, node_ids: Iterable[int], now_ms: int) -> None:
        """Begin anew with these nodes, each as if heard now."""
        self._last_contact_ms = dict.fromkeys(node_ids, now_ms)

    def __len__(self) -> int:
        return len(self._last_contact_ms)
