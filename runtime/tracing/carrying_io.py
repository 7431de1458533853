"""The current span in arguments of calls to other processes, such as Ray's tasks.

Nothing is imported in a process whose application does not use OpenTelemetry.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager


def carried() -> dict[str, str]:
    """The current context as the configured propagator writes it, to be passed as an argument; empty without
    a span."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or not trace.get_current_span().get_span_context().is_valid:
        return {}
    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier


def below(carrier: Mapping[str, str]) -> AbstractContextManager[None]:
    """Around what the call does: the span of its caller is the current one."""
    return _below(carrier) if carrier else nullcontext()


@contextmanager
def _below(carrier: Mapping[str, str]) -> Iterator[None]:
    from opentelemetry import propagate

    from .sdk_io import attach, detach

    token = attach(propagate.extract(carrier))
    try:
        yield
    finally:
        detach(token)
