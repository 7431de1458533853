"""The timing wheel gives exactly what a heap gives, for any history of adding, cancelling and waiting."""

from headrace.runtime.timing_wheel import TimingWheel
from hypothesis import given
from hypothesis import strategies as st
from timer_heap import TimerHeap

distances = st.one_of(
    st.integers(-50, 60),
    st.sampled_from([19, 20, 21, 379, 399, 400, 401, 7999, 8000, 8001]),
    st.integers(0, 200_000),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), distances),
        st.tuples(st.just("cancel"), st.integers(0, 100)),
        st.tuples(st.just("advance"), distances),
        st.tuples(st.just("follow"), st.just(0)),
    ),
    min_size=12,  # short histories never have two timers in one coarse bucket
    max_size=80,
)


@given(steps, st.sampled_from([(1, 20), (1, 2), (3, 4), (10, 7)]), st.integers(0, 10**7))
def test_wheel_and_heap_agree(history: list[tuple[str, int]], shape: tuple[int, int], start_ms: int) -> None:
    """Same calls to both: the same items in the same order at every step, and the same number waiting."""
    tick_ms, size = shape
    now_ms = start_ms
    wheel: TimingWheel[int] = TimingWheel(tick_ms, size, now_ms)
    heap = TimerHeap(tick_ms, now_ms)
    timers = []
    for number, (action, value) in enumerate(history):
        if action == "add":
            timers.append((wheel.add(number, now_ms + value), heap.add(number, now_ms + value)))
        elif action == "cancel" and timers:
            timer, twin = timers[value % len(timers)]
            assert wheel.cancel(timer) == heap.cancel(twin)
        elif action in ("advance", "follow"):
            if action == "follow":
                now_ms = max(now_ms, wheel.next_deadline_ms() or now_ms)
            else:
                now_ms = max(now_ms, now_ms + value)
            assert wheel.advance(now_ms) == heap.advance(now_ms)
        assert len(wheel) == len(heap)
        earliest_ms, stop_ms = heap.earliest_ms(), wheel.next_deadline_ms()
        assert (stop_ms is None) == (earliest_ms is None)
        if stop_ms is not None and earliest_ms is not None:
            assert stop_ms <= max(now_ms, earliest_ms)
    assert wheel.advance(now_ms + 10**6) == heap.advance(now_ms + 10**6)
