"""The environment of the process, which clients read here only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def environment() -> Mapping[str, str]:
    """The variables of this process as they are now."""
    return os.environ
