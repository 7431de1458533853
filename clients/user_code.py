"""The user's own code, called so that nothing it raises stops a client. Pure."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("headrace.client")


def call_user(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the user's function returns; None, logged, if it raises."""
    try:
        return function(*arguments)
    except Exception:  # the shell ends here: user code runs beyond it
        log.exception("%r raised; the client goes on", function)
        return None


def hooks_of(interceptors: object, *names: str) -> tuple[tuple[Callable[..., Any], ...], ...]:
    """For each name the methods of that name, in the order of the interceptors; each may be left out.

    Errors: TypeError for what is no iterable of interceptors, has none of the methods, or has one that is a
    coroutine function, which nobody would await.
    """
    wanted = " or ".join(names)
    if not isinstance(interceptors, Iterable) or isinstance(interceptors, str):
        raise TypeError(f"interceptors= takes a list of objects with {wanted}, not {interceptors!r}")
    found: dict[str, list[Callable[..., Any]]] = {name: [] for name in names}
    for interceptor in interceptors:
        if isinstance(interceptor, type):
            raise TypeError(f"interceptors= takes objects, not classes: {interceptor.__name__}()")
        methods = {name: getattr(interceptor, name, None) for name in names}
        if not any(map(callable, methods.values())):
            raise TypeError(f"an interceptor has {wanted}, and {interceptor!r} has neither")
        for name, method in methods.items():
            if method is None:
                continue
            if not callable(method) or inspect.iscoroutinefunction(method):
                raise TypeError(f"{name} of {interceptor!r} must be a plain method")
            found[name].append(method)
    return tuple(tuple(methods) for methods in found.values())
