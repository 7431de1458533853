"""Selects the record codec: `batch.py` in Python is the reference, `_batch.pyx` the compiled equivalent.

The compiled one is the default where it was built; without it the Python one runs, and a log line says so.
HEADRACE_CODEC=python selects the Python one; with HEADRACE_CODEC=compiled a missing build is an error.
`interfaces.py` documents what a codec does.
"""

from __future__ import annotations

import logging
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


_LOG = logging.getLogger(__name__)


def pick_codec(choice: str | None) -> RecordCodec:
    """The codec that HEADRACE_CODEC names: "compiled", "python", or None: compiled if it is built.

    Errors: ConfigError for another name; ImportError, with the remedy, if "compiled" is not built.
    """
    if choice == "python":
        from .batch import PythonCodec

        return PythonCodec(process_secret())
    if choice not in (None, "compiled"):
        raise ConfigError(f"HEADRACE_CODEC must be 'compiled' or 'python', not {choice!r}")
    try:
        from ._batch import CompiledCodec
    except ModuleNotFoundError as error:
        if choice is None:
            _LOG.warning(
                "the compiled record codec is not built: the Python one is used, which is many times slower."
                " Install a wheel of headrace for this Python, or a C compiler and headrace again"
                " (`make codec` in a clone); HEADRACE_CODEC=python avoids this message"
            )
            return pick_codec("python")
        raise ImportError(
            "the compiled record codec is not built: install a wheel of headrace for this Python, or a C "
            "compiler and headrace again (`make codec` in a clone)"
        ) from error
    return CompiledCodec(process_secret())


def codec_name() -> str:
    """Which codec `active_codec` is: compiled or python."""
    return "python" if type(active_codec()).__name__ == "PythonCodec" else "compiled"


@cache
def active_codec() -> RecordCodec:
    """The codec of this process, selected once by the environment variable HEADRACE_CODEC."""
    return pick_codec(codec_choice())
