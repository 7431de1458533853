"""A case in headrace.stream."""

from __future__ import annotations

from .cases import Case, Result


def result(case: Case) -> Result:
    """What headrace.stream gives for a case."""
    raise NotImplementedError
