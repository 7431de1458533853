"""Calls of user code whose exceptions must not stop a client. Pure."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("headrace.client")


def call_user(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of the user's function; None if it raises, which is logged."""
    try:
        return function(*arguments)
    except Exception:  # the shell ends here: user code is outside of it
        log.exception("%r raised an exception; the client continues", function)
        return None


def hooks_of(interceptors: object, *names: str) -> tuple[tuple[Callable[..., Any], ...], ...]:
    """For each name the methods of that name, in the order of the interceptors; each is optional.

    Errors: TypeError for an argument that is not an iterable of interceptors, an interceptor without any of
    the methods, or a coroutine function, which would not be awaited.
    """
    wanted = " or ".join(names)
    if not isinstance(interceptors, Iterable) or isinstance(interceptors, str):
        raise TypeError(f"interceptors= must be a list of objects with {wanted}, not {interceptors!r}")
    found: dict[str, list[Callable[..., Any]]] = {name: [] for name in names}
    for interceptor in interceptors:
        if isinstance(interceptor, type):
            raise TypeError(f"interceptors= must have instances, not classes: use {interceptor.__name__}()")
        methods = {name: getattr(interceptor, name, None) for name in names}
        if not any(map(callable, methods.values())):
            raise TypeError(f"an interceptor needs {wanted}, {interceptor!r} has neither")
        for name, method in methods.items():
            if method is None:
                continue
            if not callable(method) or inspect.iscoroutinefunction(method):
                raise TypeError(f"{name} of {interceptor!r} must be a plain method")
            found[name].append(method)
    return tuple(tuple(methods) for methods in found.values())
