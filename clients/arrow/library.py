"""pyarrow, or what to install."""

from __future__ import annotations

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as error:
    raise ImportError(
        "Arrow tables need pyarrow, which is not installed here: pip install 'headrace[arrow]'",
        name="pyarrow",
    ) from error

__all__ = ["pa", "pc"]
