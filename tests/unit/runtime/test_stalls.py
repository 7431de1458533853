"""Stalls of a loop, from when its timer comes."""

from headrace.runtime.stalls import LONG_STALL_MS, REPORT_EVERY_MS, WINDOW_MS, StallMeter


def test_punctual_timer_is_no_stall() -> None:
    """Exactly on time, and early."""
    meter = StallMeter(100, 0)
    assert [meter.look(at) for at in (100, 200, 250)] == [0, 0, 0]
    assert meter.longest_ms(250) == 0


def test_long_stall_is_reported_once_and_kept_for_a_minute() -> None:
    """The timer is 700 ms late; a short stall is kept and not reported."""
    meter = StallMeter(100, 0)
    assert meter.look(300) == 0
    assert meter.look(1_100) == 700
    assert meter.look(1_200) == 0
    assert meter.longest_ms(1_200) == 700
    assert meter.longest_ms(WINDOW_MS + 1_100) >= WINDOW_MS - 200, "the one that may be going on counts"
    assert StallMeter(100, 0).longest_ms(WINDOW_MS) == WINDOW_MS - 100


def test_reports_are_limited_and_name_the_longest_stall() -> None:
    """Three long stalls: one line at once, one for the other two after the interval."""
    meter = StallMeter(100, 0)
    at, reports = 0, []
    for late in (LONG_STALL_MS, 2_000, 900):
        at += 100 + late
        reports.append(meter.look(at))
    while at < 2 * REPORT_EVERY_MS:
        at += 100
        reports.append(meter.look(at))
    assert [each for each in reports if each] == [LONG_STALL_MS, 2_000]
