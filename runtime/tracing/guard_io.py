"""Errors of samplers, propagators and processors of spans end here: no record or request fails by them."""

from __future__ import annotations

import logging
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ..limited_log_io import LimitedLog

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

_log = LimitedLog(logging.getLogger("headrace.tracing"))


def guarded(function: Callable[P, T]) -> Callable[P, T | None]:
    """A function that makes spans: None after an exception, which is logged."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - of the application's SDK
            kind = function.__qualname__
            _log.log(logging.WARNING, kind, "a span could not be made: %r", error, exc_info=error)
            return None

    return call
