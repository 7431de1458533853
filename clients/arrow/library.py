"""Imports pyarrow, or raises an error that names the extra."""

from __future__ import annotations

from ...runtime.extras import missing_extra

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as error:
    raise missing_extra(error, "Arrow tables", "arrow") from error

__all__ = ["pa", "pc"]
