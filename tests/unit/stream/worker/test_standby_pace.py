"""How much of a thread's time standby tasks get."""

from __future__ import annotations

from headrace.stream.worker.standby_pace import SHARE, StandbyPace


def test_an_idle_thread_gives_all_of_its_time() -> None:
    """A turn that took long delays none."""
    pace = StandbyPace()
    assert pace.is_due(0.0, is_idle=True)
    pace.took(0.0, 5.0)
    assert pace.is_due(5.0, is_idle=True)


def test_a_busy_thread_gives_one_part_in_ten() -> None:
    """Turns of the active tasks take 3 ms, those of the standbys 10 ms: they get their share, not more."""
    pace, now_s, spent_s = StandbyPace(), 0.0, 0.0
    while now_s < 10.0:
        now_s += 0.003
        if pace.is_due(now_s, is_idle=False):
            pace.took(now_s, now_s + 0.01)
            now_s += 0.01
            spent_s += 0.01
    assert 0.9 / SHARE < spent_s / now_s <= 1 / SHARE + 0.002
