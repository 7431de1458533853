"""What a controller does in one role, in one epoch: the interface of the five state classes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .roles import Role, RoleEvent


class EpochState:
    """Made when the role or the epoch changes, and replaced by the next change. Source: Kafka
    EpochState.java."""

    role: Role

    def poll(self, now_ms: int) -> RoleEvent | None:
        """Do what is due; or what changes the role, and then nothing more."""
        raise NotImplementedError

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When `poll` must be called without any other cause."""
        raise NotImplementedError

    def on_stall(self, stalled_ms: int) -> None:
        """This process could receive nothing for so long: extend the deadlines of what it waited for."""

    def close(self) -> None:
        """The role or the epoch is about to be another one."""

    def check(self) -> None:
        """Assert the invariants; after a step."""
