"""How long a table holds back its changes. Source: Suppressed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .durations import Duration, to_ms
from .names import checked

if TYPE_CHECKING:
    from collections.abc import Mapping

UNBOUNDED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Suppressed:
    """`wait_ms` None: until windows close, which are then forwarded once, without tombstones.

    A buffer above its bounds forwards its oldest changes early, or stops the application (`is_strict`).
    """

    wait_ms: int | None
    max_records: int = UNBOUNDED
    max_bytes: int = UNBOUNDED
    is_strict: bool = True
    is_logged: bool = True
    changelog_config: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None


def until_window_closes(
    *,
    max_records: int | None = None,
    max_bytes: int | None = None,
    logged: bool = True,
    config: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Suppressed:
    """Only the final result of each window. The application stops if the buffer exceeds a bound."""
    return Suppressed(
        None,
        UNBOUNDED if max_records is None else max_records,
        UNBOUNDED if max_bytes is None else max_bytes,
        is_logged=logged,
        changelog_config=dict(config or {}),
        name=None if name is None else checked(name),
    )


def until_time_limit(
    limit: Duration,
    *,
    max_records: int | None = None,
    max_bytes: int | None = None,
    shut_down_when_full: bool = False,
    logged: bool = True,
    config: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Suppressed:
    """At most one change per key in that time. A full buffer forwards early unless `shut_down_when_full`."""
    return Suppressed(
        to_ms(limit, "limit"),
        UNBOUNDED if max_records is None else max_records,
        UNBOUNDED if max_bytes is None else max_bytes,
        is_strict=shut_down_when_full,
        is_logged=logged,
        changelog_config=dict(config or {}),
        name=None if name is None else checked(name),
    )
