"""The registry of all groups of cells, and which of them a run measures. Pure.

A group runs its cells in order, then backwards (A B, B A, ...); each pass is one pair for every comparison.
Groups with a goal run first and with all their pairs; the others have the rest of the time. Counts are those
of the full run; QUICK takes a share of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .groups.bare import BARE_LOOPS
from .groups.cleaner import CLEANER
from .groups.coordinators import COORDINATORS
from .groups.kafka_clients import KAFKA_CLIENTS, KAFKA_CLIENTS_OF_THREE
from .groups.replicated import REPLICATED
from .groups.security import SECURITY
from .groups.single_node import SINGLE_NODE

if TYPE_CHECKING:
    from .group import Group

GROUPS: tuple[Group, ...] = (
    *SINGLE_NODE,
    *BARE_LOOPS,
    *KAFKA_CLIENTS,
    *COORDINATORS,
    *CLEANER,
    *SECURITY,
    *REPLICATED,
    *KAFKA_CLIENTS_OF_THREE,
)
# measured without cells, for headrace (and Kafka's partitions)
APART = ("startup", "partitions")
LATER = {"W14, W16, W17": "share groups, start-up with large logs and streams wait for those features"}


def chosen(only: set[str], *, is_quick: bool) -> list[Group]:
    """The groups whose id or workload is in `only`, or all groups of the mode. Errors: KeyError."""
    if not only:
        groups = [group for group in GROUPS if group.in_quick or not is_quick]
        return sorted(groups, key=lambda group: not group.has_goal)  # a stable sort
    groups = [group for group in GROUPS if {group.id, group.workload.lower()} & only]
    unknown = only - {group.id for group in groups} - {group.workload.lower() for group in groups}
    if unknown - set(APART):
        known = ", ".join((*(group.id for group in GROUPS), *APART))
        raise KeyError(f"no group {', '.join(sorted(unknown))}; there are {known}, and w1 ... w11, r3")
    return groups


def parts(only: set[str], *, is_quick: bool) -> set[str]:
    """Which of APART to measure: those in `only`, or all; QUICK has no time for partitions."""
    return set(APART) & only if only else set(APART) - ({"partitions"} if is_quick else set())
