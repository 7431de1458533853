"""How complete the stores of an instance are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...clients.admin.admin_types import LATEST
from ..worker.metadata import LagInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...clients.sync.admin_io import Admin
    from ...protocol.model import TopicPartition


def store_lags(
    positions: Mapping[tuple[str, TopicPartition], int | None], open_admin: Callable[[], Admin]
) -> dict[str, dict[int, LagInfo]]:
    """By store and partition of the task. `positions`: by store and changelog the next offset to restore,
    None for a complete store. Errors: HeadraceError."""
    found: dict[str, dict[int, LagInfo]] = {}
    if not positions:
        return found
    with open_admin() as admin:
        ends = admin.list_offsets({changelog: LATEST for _, changelog in positions})
        for (store, changelog), position in sorted(positions.items()):
            end = ends[changelog].offset
            current = end if position is None else position
            found.setdefault(store, {})[changelog.partition] = LagInfo(current, end, max(end - current, 0))
    return found
