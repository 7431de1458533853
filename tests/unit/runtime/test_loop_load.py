"""The idle ratio of an event loop's thread."""

from headrace.runtime.loop_load import WINDOW, LoopLoad


def test_idle_ratio_is_of_the_window() -> None:
    """1 before there are two looks; old looks leave the window; clocks that disagree give no ratio beyond."""
    load = LoopLoad()
    assert load.idle_ratio() == 1
    load.look(0, 0)
    assert load.idle_ratio() == 1
    load.look(10, 9)
    assert round(load.idle_ratio(), 6) == 0.1
    for second in range(11, 12 + WINDOW):
        load.look(second, 9)
    assert load.idle_ratio() == 1
    busy = LoopLoad()
    busy.look(0, 0)
    busy.look(1, 1.1)
    assert busy.idle_ratio() == 0
