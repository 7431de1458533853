"""Tests of stream/topology/drawing.py."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from headrace import stream, utf8
from headrace.stream.topology.drawing import drawing

SVG = "{http://www.w3.org/2000/svg}"


def app() -> stream.App:
    made = stream.App("shop-1", key=utf8, value=utf8)
    orders = made.stream("orders").merge(made.stream(re.compile("more-<.*>")))
    orders.group_by(lambda _key, value: value).count(store="per-value").to_stream().to("counts", value=utf8)
    orders.join(made.global_table("rates"), lambda left, _right: left, key=lambda key, _value: key).to(
        "priced"
    )
    return made


def test_every_node_topic_and_store_is_drawn() -> None:
    """Names of topics are escaped; the text stays inside of its box."""
    graph = app().topology().graph()
    root = ElementTree.fromstring(drawing(graph))
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {node.name for each in graph.subtopologies for node in each.nodes} <= texts
    assert {"per-value", "orders", "pattern more-<.*>", "per-value-repartition", "counts"} <= texts
    assert {"Sub-topology 0", "Global store 2", "rates"} <= texts


def test_boxes_of_a_layer_do_not_overlap() -> None:
    """Neither do layers, nor sub-topologies."""
    root = ElementTree.fromstring(drawing(app().topology().graph()))
    boxes = [
        tuple(float(box.attrib[name]) for name in ("x", "y", "width", "height"))
        for box in root.iter(f"{SVG}rect")
    ]
    for number, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, other_width, other_height in boxes[:number]:
            apart = x >= other_x + other_width or other_x >= x + width
            assert apart or y >= other_y + other_height or other_y >= y + height
    assert max(x + width for x, _, width, _ in boxes) <= float(root.attrib["width"])
    assert max(y + height for _, y, _, height in boxes) <= float(root.attrib["height"])
