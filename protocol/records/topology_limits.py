"""The size of topology descriptions (KIP-1331): members and coordinators share it. Pure."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .streams_group_records import TopologyDescription

SOURCE, PROCESSOR, SINK = 1, 2, 3
NODE_KINDS = frozenset((SOURCE, PROCESSOR, SINK))
# Bound: it is one record of the coordinator's log, and a part of one request
MAX_DESCRIPTION_BYTES = 256 * 1024
_PER_TEXT = 5  # the length of a text takes so many bytes at most


def description_size(description: TopologyDescription) -> int:
    """An upper bound of its bytes in records."""
    return sum(
        len(text.encode()) + _PER_TEXT
        for graph in description.subtopologies
        for node in graph.nodes
        for text in chain(
            (graph.subtopology_id, node.name, node.chosen_by),
            node.topics,
            node.stores,
            node.successors,
            node.predecessors,
        )
    )
