"""The errors of streams applications."""

from __future__ import annotations

from ..protocol.errors import HeadraceError


class StreamsError(HeadraceError):
    """A streams application cannot go on."""


class StateDirectoryError(StreamsError):
    """The folder of the stores cannot be used: another process has it, or it cannot be written."""


class InternalTopicError(StreamsError):
    """A source topic is missing, topics are not co-partitioned, or an internal topic does not fit."""
