"""The cell of the authorizer, without servers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..constants import AUTHORIZED_US, LOAD_S, LOOK_UP_US
from .cell import Cell

if TYPE_CHECKING:
    from ..harness import Harness


class AuthorizerCell(Cell):
    """A node's authorizer with `count` rules: load time, look-up time, extra cost of a request."""

    reports = frozenset({AUTHORIZED_US, LOAD_S, LOOK_UP_US})

    def run(self, harness: Harness) -> dict[str, Any]:
        order = {**self.spec, "loop": "authorize"}
        (report,) = harness.run_workers([order], cores=harness.client_cores[:1])
        extra_us = report["extra_us"]
        return {
            **extra_us,
            LOAD_S: report["load_s"],
            LOOK_UP_US: report["look_up_us"],
            AUTHORIZED_US: max(extra_us.values()),
        }
