"""The processing graph that a joining member sends (KIP-1331): what is accepted. Pure.

Only operators read it; it has no part in assignments. Each member that joins with another one replaces it: in
a rolling upgrade that of the last member stays.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRequestError
from ...protocol.records.topology_limits import MAX_DESCRIPTION_BYTES, NODE_KINDS, description_size

if TYPE_CHECKING:
    from ...protocol.records.streams_group_records import TopologyDescription


def check_description(description: TopologyDescription) -> None:
    """Errors: InvalidRequestError."""
    size = description_size(description)
    if size > MAX_DESCRIPTION_BYTES:
        raise InvalidRequestError(
            f"the topology description has {size} bytes, more than {MAX_DESCRIPTION_BYTES}: send none"
        )
    for graph in description.subtopologies:
        names = {node.name for node in graph.nodes}
        if len(names) != len(graph.nodes):
            raise InvalidRequestError(f"subtopology {graph.subtopology_id!r} has two nodes of one name")
        for node in graph.nodes:
            if node.kind not in NODE_KINDS:
                raise InvalidRequestError(f"node {node.name!r} is of the unknown kind {node.kind}")
            for other in chain(node.successors, node.predecessors):
                if other not in names:
                    raise InvalidRequestError(
                        f"node {node.name!r} is connected to {other!r}, which is no node"
                    )
