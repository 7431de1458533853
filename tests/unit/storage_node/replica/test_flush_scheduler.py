"""Which logs get a flush, and that one flush of a log runs at a time."""

from core_rig import CoreRig
from headrace.storage_node.effects import FlushLog
from node_rig import batch


def test_one_flush_of_a_log_runs_at_a_time(rig: CoreRig) -> None:
    """durability=fsync: appends during a flush request the next one at its end."""
    topic = rig.topic(durability="fsync")
    rig.produce(topic, batch(b"a"))
    rig.produce(topic, batch(b"b"))
    (effect,) = [each for each in rig.effects if isinstance(each, FlushLog)]
    assert effect.is_awaited
    assert rig.flush() == 1
    assert rig.flush() == 0


def test_flush_all_skips_clean_and_flushing_logs(rig: CoreRig) -> None:
    """With low priority: acknowledgements do not wait for it."""
    dirty, _clean = rig.topic("dirty"), rig.topic("clean")
    rig.produce(dirty, batch(b"a"))
    flushes = rig.core.replicas.flushes
    for _ in range(2):
        flushes.flush_all()
    rig.check()
    (effect,) = rig.pop(FlushLog)
    assert (effect.partition.key, effect.is_awaited) == ((dirty, 0), False)


def test_flush_overdue_waits_for_flush_ms(rig: CoreRig) -> None:
    """Counted from the first look at the unflushed record."""
    topic = rig.topic(flush_ms="100")
    rig.produce(topic, batch(b"a"))
    flushes = rig.core.replicas.flushes
    for now_ms, expected in ((1_000, 0), (1_099, 0), (1_100, 1)):
        flushes.flush_overdue(now_ms)
        rig.check()
        assert len(rig.pop(FlushLog)) == expected
