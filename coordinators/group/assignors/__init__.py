"""Server-side assignors of the consumer protocol: pure functions over members and topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .range_assignor import assign_ranges
from .uniform_assignor import assign_uniformly

if TYPE_CHECKING:
    from .model import Assignor

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
