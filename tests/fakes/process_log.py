"""What the servers in processes of their own tell on stderr, for those who look into what went wrong."""

from __future__ import annotations

import logging
import os

VARIABLE = "HEADRACE_LOG"


def log_as_asked() -> None:
    """At the level that HEADRACE_LOG names; without it as Python does by default."""
    level = os.environ.get(VARIABLE)
    if level:
        logging.basicConfig(level=level, format="%(asctime)s %(name)s %(levelname)s %(message)s")
