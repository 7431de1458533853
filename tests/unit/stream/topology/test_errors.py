"""The line of an error."""

from __future__ import annotations

import sys

from headrace.stream.topology.errors import TopologyError, caller


def test_the_caller_is_the_first_line_outside_the_package() -> None:
    origin = caller()
    assert origin == (__file__, sys._getframe().f_lineno - 1)
    error = TopologyError("wrong", origin)
    assert str(error) == f"wrong ({__file__}:{origin.line})"
    assert error.problem == "wrong"
