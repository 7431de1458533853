"""A drawing of a topology as SVG: nodes in layers from sources to sinks, stores beside their processors."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from ...protocol.records.topology_limits import PROCESSOR, SINK, SOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...protocol.records.streams_group_records import (
        SubtopologyGraph,
        TopologyDescription,
        TopologyNode,
    )

_LETTER, _LINE, _PAD, _GAP, _LAYER = 7.3, 17, 9, 26, 46  # pixels
_FILLS = {SOURCE: "#dbe9fb", PROCESSOR: "#ffffff", SINK: "#dff3e0"}
_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1b2733}"
    ".title{font-weight:bold}.topic{fill:#4a5b6c}"
    "path{fill:none;stroke:#5b6b7b}.store{stroke-dasharray:4 3}"
)


@dataclass(slots=True)
class _Box:
    """`lines`: the name, then topics. Position of the upper left corner in pixels."""

    lines: Sequence[str]
    fill: str
    is_store: bool = False
    left: float = 0
    top: float = 0

    @property
    def width(self) -> float:
        return max(len(line) for line in self.lines) * _LETTER + 2 * _PAD

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 2 * _PAD - 4

    @property
    def middle(self) -> float:
        return self.left + self.width / 2

    def draw(self) -> str:
        radius = 14 if self.is_store else 4
        texts = "".join(
            f'<text class="{"topic" if number else ""}" x="{self.left + _PAD:.0f}"'
            f' y="{self.top + _PAD + 8 + number * _LINE:.0f}">{escape(line)}</text>'
            for number, line in enumerate(self.lines)
        )
        place = f'x="{self.left:.0f}" y="{self.top:.0f}" width="{self.width:.0f}" height="{self.height:.0f}"'
        return f'<rect {place} rx="{radius}" fill="{self.fill}" stroke="#5b6b7b"/>{texts}'


def drawing(topology: TopologyDescription) -> str:
    """The SVG document of all sub-topologies, one below the other, and of the global stores."""
    parts: list[str] = []
    top, width = float(_GAP), 0.0
    for graph in topology.subtopologies:
        title = f"{'Global store' if graph.is_global else 'Sub-topology'} {graph.subtopology_id}"
        parts.append(f'<text class="title" x="{_GAP}" y="{top:.0f}">{title}</text>')
        section = _Section(graph)
        section.place(top + _LINE)
        parts.append(section.draw())
        top, width = section.bottom + 2 * _GAP, max(width, section.right + _GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{top:.0f}"'
        f' viewBox="0 0 {width:.0f} {top:.0f}"><style>{_STYLE}</style>'
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"'
        ' orient="auto"><path d="M0 0 L8 4 L0 8 z" style="fill:#5b6b7b;stroke:none"/></marker></defs>'
        + "".join(parts)
        + "</svg>\n"
    )


class _Section:
    """The boxes of one sub-topology."""

    def __init__(self, graph: SubtopologyGraph) -> None:
        self._children = {node.name: node.successors for node in graph.nodes}  # parents before children
        self._boxes = {node.name: _Box(_lines(node), _FILLS[node.kind]) for node in graph.nodes}
        self._users = {
            store: [node.name for node in graph.nodes if store in node.stores]
            for store in dict.fromkeys(name for node in graph.nodes for name in node.stores)
        }
        self._stores = {name: _Box([name], "#f4efdc", is_store=True) for name in self._users}
        self.bottom = self.right = 0.0

    def place(self, top: float) -> None:
        """Give every box its position, from `top` down."""
        layers = _layers(self._children)
        for layer in layers:
            layer.sort(key=self._wanted_middle)
            left = float(_GAP)
            for name in layer:
                box = self._boxes[name]
                box.left = max(left, self._wanted_middle(name) - box.width / 2)
                box.top = top
                left = box.left + box.width + _GAP
            for store, users in self._users.items():
                if users[0] in layer:
                    box = self._stores[store]
                    box.left, box.top = left, top
                    left += box.width + _GAP
            self.right = max(self.right, left - _GAP)
            top += max(self._boxes[name].height for name in layer) + _LAYER
        self.bottom = top - _LAYER

    def _wanted_middle(self, name: str) -> float:
        above = [box.middle for parent, box in self._boxes.items() if name in self._children.get(parent, ())]
        return sum(above) / len(above) if above else 0

    def draw(self) -> str:
        """Lines first, so that boxes lie over them."""
        lines = [
            _curve(self._boxes[parent], self._boxes[child])
            for parent, children in self._children.items()
            for child in children
        ]
        lines += [
            _dashes(self._boxes[user], self._stores[store])
            for store, users in self._users.items()
            for user in users
        ]
        boxes = [box.draw() for box in (*self._boxes.values(), *self._stores.values())]
        return "".join(lines + boxes)


def _lines(node: TopologyNode) -> list[str]:
    if node.topics:
        return [node.name, *node.topics]
    if node.kind == SOURCE:
        return [node.name, f"pattern {node.chosen_by}"]
    return [node.name, f"topic by {node.chosen_by}"] if node.kind == SINK else [node.name]


def _layers(children: Mapping[str, tuple[str, ...]]) -> list[list[str]]:
    """Each node below all of its parents; `children` has parents before children."""
    depth = dict.fromkeys(children, 0)
    for name, below in children.items():
        for child in below:
            depth[child] = max(depth[child], depth[name] + 1)
    layers: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name, number in depth.items():
        layers[number].append(name)
    return layers


def _curve(upper: _Box, lower: _Box) -> str:
    start, end = upper.top + upper.height, lower.top
    half = (start + end) / 2
    return (
        f'<path marker-end="url(#head)" d="M{upper.middle:.0f} {start:.0f} C{upper.middle:.0f} {half:.0f}'
        f' {lower.middle:.0f} {half:.0f} {lower.middle:.0f} {end:.0f}"/>'
    )


def _dashes(user: _Box, store: _Box) -> str:
    return (
        f'<path class="store" d="M{user.middle:.0f} {user.top + user.height / 2:.0f}'
        f' L{store.middle:.0f} {store.top + store.height / 2:.0f}"/>'
    )
