"""Selects the record codec: `batch.py` in Python is the reference, `_batch.pyx` the compiled equivalent.

The compiled one is the default. `HEADRACE_CODEC=python` selects the Python one; a missing build is an error
that says how to build it, not a silent fallback. `interfaces.py` documents what a codec does.
"""

from __future__ import annotations

from functools import cache

from ..errors import ConfigError
from .columns import BinaryColumn, Columns, DecodedColumns, HeaderColumn
from .environment_io import codec_choice, process_secret
from .interfaces import BatchBuilder, Cleaned, ColumnSink, Header, OffsetMap, RecordCodec, RecordLike
from .opening import MAX_DECOMPRESSED_BYTES, BatchFacts

__all__ = [
    "MAX_DECOMPRESSED_BYTES",
    "BatchBuilder",
    "BatchFacts",
    "BinaryColumn",
    "Cleaned",
    "ColumnSink",
    "Columns",
    "DecodedColumns",
    "Header",
    "HeaderColumn",
    "OffsetMap",
    "RecordCodec",
    "RecordLike",
    "active_codec",
    "pick_codec",
]


def pick_codec(choice: str | None) -> RecordCodec:
    """The codec that HEADRACE_CODEC names: None or "compiled", or "python".

    Errors: ConfigError for another name; ImportError, with the make target, if the compiled one is not built.
    """
    if choice == "python":
        from .batch import PythonCodec

        return PythonCodec(process_secret())
    if choice not in (None, "compiled"):
        raise ConfigError(f"HEADRACE_CODEC must be 'compiled' or 'python', not {choice!r}")
    try:
        from ._batch import CompiledCodec
    except ModuleNotFoundError as error:
        raise ImportError(
            "the compiled record codec is not built: run `make codec`, or set HEADRACE_CODEC=python "
            "to use the slow one"
        ) from error
    return CompiledCodec(process_secret())


@cache
def active_codec() -> RecordCodec:
    """The codec of this process, selected once by the environment variable HEADRACE_CODEC."""
    return pick_codec(codec_choice())
