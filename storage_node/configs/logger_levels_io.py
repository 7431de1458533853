"""The loggers of this process, with Kafka's names of levels."""

from __future__ import annotations

import logging

from .logger_configs import ROOT

_OWN = "headrace"
_TRACE = 5
_NUMBERS = {
    "TRACE": _TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


class ProcessLoggers:
    """The root logger and headrace's; fulfils Loggers. Loggers of an application around `local()` are left
    out, but inherit from the root logger."""

    def levels(self) -> dict[str, str]:
        """The effective level of each logger by its name."""
        known = list(logging.root.manager.loggerDict)  # Order: a copy; other threads create loggers meanwhile
        names = sorted(name for name in known if name.split(".")[0] == _OWN)
        return {ROOT: _name_of(logging.root)} | {name: _name_of(logging.getLogger(name)) for name in names}

    def set_level(self, name: str, level: str | None) -> None:
        """Set a logger's level; None inherits it from the parent."""
        logger = logging.root if name == ROOT else logging.getLogger(name)
        logger.setLevel(logging.NOTSET if level is None else _NUMBERS[level])


def _name_of(logger: logging.Logger) -> str:
    """The highest of Kafka's levels that is not above the logger's effective level."""
    number = max(logger.getEffectiveLevel(), _TRACE)
    return max((low, name) for name, low in _NUMBERS.items() if low <= number)[1]
