"""The trace of control calls: calls of Ray actors that start, stop and describe headrace's own processes.

The caller passes its context as the argument `trace` (`call_context`), only below a span. The actor makes a
span for the call where it has tracing, and its log lines have the ids of the trace in any case.
"""

from __future__ import annotations

import inspect
import threading
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .carrying_io import below, carried
from .names import SCOPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from opentelemetry.trace import TracerProvider

    from ..otlp_config import TracingServerConfig

P = ParamSpec("P")
T = TypeVar("T")

TRACE = "trace"
_FLUSH_MS = 1_000


def call_context() -> dict[str, Any]:
    """Keyword arguments for a `control_call`; empty without a span."""
    carrier = carried()
    return {TRACE: carrier} if carrier else {}


class ControlSpans:
    """The spans of the control calls of one process, which is `name`. `config` None: a process whose
    application may have set a tracer provider."""

    def __init__(self, name: str, config: TracingServerConfig | None = None) -> None:
        self._name, self._config = name, config
        self._lock = threading.Lock()
        self._provider: TracerProvider | None = None
        self._is_looked_up = False

    def around(self, carrier: Mapping[str, str], operation: str) -> AbstractContextManager[None]:
        """Around a call whose caller has passed this context."""
        return self._around(carrier, operation) if carrier else nullcontext()

    @contextmanager
    def _around(self, carrier: Mapping[str, str], operation: str) -> Iterator[None]:
        with below(carrier):
            provider = self._found()
            if provider is None:
                yield
                return
            from opentelemetry.trace import SpanKind

            tracer = provider.get_tracer(SCOPE)
            try:
                with tracer.start_as_current_span(f"{operation} {self._name}", kind=SpanKind.SERVER):
                    yield
            finally:
                flush = getattr(provider, "force_flush", None)
                if flush is not None:  # the call may end the process
                    threading.Thread(target=flush, args=(_FLUSH_MS,), daemon=True).start()

    def _found(self) -> TracerProvider | None:
        """The provider, made at the first call with a context: most processes never get one."""
        with self._lock:
            if not self._is_looked_up:
                self._is_looked_up = True
                self._provider = self._look_up()
            return self._provider

    def _look_up(self) -> TracerProvider | None:
        if self._config is None:
            from .sdk_io import process_provider

            return process_provider()
        if not self._config.enable_tracing:
            return None
        from .server_io import ServerTracing

        return ServerTracing(self._config, self._name).provider


def control_call(method: Callable[P, T]) -> Callable[P, T]:
    """A method of an actor with a further argument `trace`; the actor has `control_spans`."""
    signature = inspect.signature(method)
    trace = inspect.Parameter(TRACE, inspect.Parameter.KEYWORD_ONLY, default=None)

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        carrier: Any = kwargs.pop(TRACE, None)
        actor: Any = args[0]
        with actor.control_spans.around(carrier or {}, method.__name__):
            return method(*args, **kwargs)

    # Order: Ray takes the signature of what `inspect.unwrap` finds, which must be this function.
    del call.__wrapped__
    parameters = [*signature.parameters.values(), trace]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call
