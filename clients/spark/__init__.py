"""Topics as Spark DataFrames: `headrace.spark`. Spark is imported when one of these functions is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.lazy_names import lazy_names

if TYPE_CHECKING:
    from .reading_io import read as read
    from .session_actor import session as session
    from .source_io import HeadraceDataSource as HeadraceDataSource
    from .source_io import register as register
    from .stream_io import Stream as Stream
    from .stream_io import stream as stream
    from .writing_io import write as write
    from .writing_io import write_batch as write_batch

_HOMES = {
    "HeadraceDataSource": ".source_io",
    "Stream": ".stream_io",
    "read": ".reading_io",
    "register": ".source_io",
    "session": ".session_actor",
    "stream": ".stream_io",
    "write": ".writing_io",
    "write_batch": ".writing_io",
}

_EXTRAS = dict.fromkeys(_HOMES.values(), "spark")

__all__ = ["HeadraceDataSource", "Stream", "read", "register", "session", "stream", "write", "write_batch"]

__getattr__, __dir__ = lazy_names(__name__, _HOMES, extras=_EXTRAS)
