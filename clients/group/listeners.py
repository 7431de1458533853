"""The rebalance callbacks of the user."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ...protocol.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ...protocol.model import TopicPartition

# Called with (consumer, partitions). With an asyncio consumer it may be a coroutine function.
RebalanceCallback: TypeAlias = "Callable[[Any, tuple[TopicPartition, ...]], Awaitable[None] | None]"


NAMES = ("on_assigned", "on_revoked", "on_lost")


class OnAssigned(Protocol):
    """A listener with `on_assigned`."""

    def on_assigned(self, consumer: Any, partitions: tuple[TopicPartition, ...]) -> Any:
        """These partitions were added, perhaps none. No record of them was returned yet: `seek` here."""


class OnRevoked(Protocol):
    """A listener with `on_revoked`."""

    def on_revoked(self, consumer: Any, partitions: tuple[TopicPartition, ...]) -> Any:
        """These partitions are released when this returns; their offsets can still be committed here."""


class OnLost(Protocol):
    """A listener with `on_lost`."""

    def on_lost(self, consumer: Any, partitions: tuple[TopicPartition, ...]) -> Any:
        """These partitions may be assigned to other members already: commits fail."""


class RebalanceListener(OnAssigned, OnRevoked, OnLost, Protocol):
    """Called at rebalances inside `poll` or an iteration, in the caller's thread or task. With an asyncio
    consumer the methods may be coroutine functions. Each may be left out: see `SomeListener`."""


# What `listener=` takes: an object with at least one of the methods.
SomeListener: TypeAlias = OnAssigned | OnRevoked | OnLost


class Callbacks:
    """The callbacks of one subscription, by name.

    Errors: ConfigError for a listener without callbacks, for one that is given twice or cannot be called, and
    for a coroutine function unless the consumer `awaits` it.
    """

    def __init__(
        self, listener: Any = None, *, awaits: bool = False, **single: RebalanceCallback | None
    ) -> None:
        if listener is not None and not any(hasattr(listener, name) for name in NAMES):
            raise ConfigError(f"a listener has methods {', '.join(NAMES)}, or some of them, not {listener!r}")
        self._callbacks: dict[str, RebalanceCallback] = {}
        for name in NAMES:
            callback = single.get(name)
            found = callback if callback is not None else getattr(listener, name, None)
            if callback is not None and getattr(listener, name, None) is not None:
                raise ConfigError(f"{name} is given twice: as an argument, and by the listener")
            if found is None:
                continue
            if not callable(found):
                raise ConfigError(f"{name} must be callable, not {found!r}")
            if inspect.iscoroutinefunction(found) and not awaits:
                raise ConfigError(f"{name} is a coroutine function, which only asyncio consumers await")
            self._callbacks[name] = found

    def get(self, name: str) -> RebalanceCallback | None:
        """A callback by name, None if the user has none."""
        return self._callbacks.get(name)
