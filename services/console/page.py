"""The declaration of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.responses import Response

    from .visit import Visit


class Page(NamedTuple):
    """A handler of a path. Those of POST change the cluster, or check a change: they need the token of a
    form, and a console that is not read-only."""

    method: str
    path: str
    handler: Callable[[Visit], Awaitable[Response]]


def results_text(errors: Any, total: int) -> str:
    """What failed of a plural call, in one text; empty if nothing did."""
    if not errors:
        return ""
    name, error = next(iter(errors.items()))
    return f"{len(errors)} of {total} failed, first {name}: {error}"
