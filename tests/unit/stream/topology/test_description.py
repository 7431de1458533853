"""The text of a topology of the Processor API."""

from __future__ import annotations

from headrace.stream.topology.topology import Topology

from tests.fakes.stream_stores import AnyProcessor, AnyStore

TEXT = """\
Topologies:
   Sub-topology: 0
    Source: source (topics: [b, a])
      --> process
    Processor: process (stores: [store])
      --> sink, dynamic
      <-- source
    Sink: dynamic (extractor class: test_sub_topologies_and_global_stores.<locals>.<lambda>)
      <-- process
    Sink: sink (topic: out)
      <-- process

  Sub-topology: 1 for global store (will not generate tasks)
    Source: global-source (topics: [everywhere])
      --> keep
    Processor: keep (stores: [global])
      --> none
      <-- global-source
"""


def test_sub_topologies_and_global_stores() -> None:
    """Topics and stores are sets in Java's order; nodes with more nodes below come first."""
    topology = (
        Topology()
        .add_source("source", "b", "a")
        .add_processor("process", AnyProcessor, "source")
        .add_state_store(AnyStore("store"), "process")
        .add_sink("sink", "out", "process")
        .add_sink("dynamic", lambda key, value, context: "x", "process")
        .add_global_store(AnyStore("global"), "global-source", "everywhere", "keep", AnyProcessor)
    )
    assert topology.describe().replace("[a, b]", "[b, a]") == TEXT.replace("sink, dynamic", "dynamic, sink")
