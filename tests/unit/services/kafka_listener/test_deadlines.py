"""Deadlines of connections that are not authenticated."""

from headrace.services.kafka_listener.deadlines import Deadlines


def test_expired_ones_are_returned_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for name, deadline_ms in (("a", 10), ("b", 20), ("c", 30)):
        deadlines.set(name, deadline_ms)
    deadlines.remove("b")
    deadlines.remove("unknown")
    assert deadlines.expired(9) == []
    assert deadlines.expired(20) == ["a"]
    assert deadlines.expired(30) == ["c"]
    assert len(deadlines) == 0
