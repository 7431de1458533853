"""When the windows of a JVM warm-up agree."""

from headrace.benchmarks.warm_up_io import agreed


def test_last_three_windows_agree_within_five_percent() -> None:
    """Earlier ones do not count; two are not enough."""
    assert agreed([1.0, 100.0, 101.0, 104.0])
    assert not agreed([100.0, 101.0, 107.0])
    assert not agreed([100.0, 101.0])
