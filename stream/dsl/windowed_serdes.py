"""Serdes of windowed keys, as Java writes them to topics."""

from __future__ import annotations

from typing import Any

from ..state.formats import windows
from ..topology.serdes import WindowedKeySerde
from .durations import Duration, to_ms


def time_windowed(key: Any = None, size: Duration = 0) -> WindowedKeySerde:
    """Keys of time windows of `size`, which is not on the wire. `key` None: the application's serde."""
    size_ms = to_ms(size, "size")
    return WindowedKeySerde(lambda serde: windows.time_windowed(serde, size_ms), (("key", key),))


def session_windowed(key: Any = None) -> WindowedKeySerde:
    """Keys of sessions. `key` None: the application's serde of keys."""
    return WindowedKeySerde(windows.session_windowed, (("key", key),))
