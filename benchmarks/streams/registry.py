"""All groups of `make bench-streams`. Pure."""

from __future__ import annotations

from .cells import GROUPS, Group
from .operations import OPERATIONS, Operation

ALL: tuple[Group | Operation, ...] = (*GROUPS, *OPERATIONS)


def chosen(only: str) -> list[Group | Operation]:
    """Groups by comma-separated ids; all if there are none. Errors: KeyError."""
    names = {name.strip() for name in only.split(",") if name.strip()}
    unknown = names - {group.id for group in ALL}
    if unknown:
        known = ", ".join(group.id for group in ALL)
        raise KeyError(f"no group {', '.join(sorted(unknown))}; there are {known}")
    return [group for group in ALL if not names or group.id in names]
