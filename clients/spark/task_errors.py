"""Extracts the error of a headrace task from Spark's message. Pure.

Spark passes an error as text: the traceback of the Python worker, possibly inside a Java stack trace.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from ...protocol import errors
from ...protocol.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The last line of a traceback, followed by more lines of its message, or the Java stack.
_RAISED = re.compile(r"^(?:headrace\.protocol\.\w+\.(\w+)|(TypeError|ValueError)): (.*)$", re.MULTILINE)
_AROUND = re.compile(r"^(?:\s+at [\w.$/]+\(|\s*$|Driver stacktrace:|Caused by: )", re.MULTILINE)


def error_of(text: str) -> Exception | None:
    """The error that ended a headrace task, with the same class and message; None if `text` has none, as for
    errors of users' functions."""
    found = list(_RAISED.finditer(text))
    if not found:
        return None
    name, plain, first = found[-1].groups()
    rest = text[found[-1].end() + 1 :]
    around = _AROUND.search(rest)
    message = f"{first}\n{rest if around is None else rest[: around.start()]}".strip()
    if plain is not None:
        return TypeError(message) if plain == "TypeError" else ValueError(message)
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, HeadraceError)):
        return None
    return kind(message)


@contextlib.contextmanager
def readable() -> Iterator[None]:
    """While it is active, an action of Spark fails with the error of its headrace task, if any; Spark's
    exception is the cause."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        real = error_of(str(error))
        if real is None:
            raise
        raise real from error
