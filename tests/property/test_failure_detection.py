"""The failure detector compared with a naive one that keeps every heartbeat."""

from dataclasses import dataclass, field

from headrace.controller.state.heartbeat_delays import FACTOR, WINDOW_MS, HeartbeatDelays
from headrace.controller.state.sessions import Sessions
from headrace.runtime.recent_maximum import BUCKETS
from hypothesis import given
from hypothesis import strategies as st

INTERVAL_MS, FLOOR_MS, CEILING_MS = 300, 1_500, 9_000
NODES = (1, 2)
WIDTH_MS = WINDOW_MS // BUCKETS


@dataclass
class Naive:
    """One node: all heartbeats of its process, in order, and the end of its connection."""

    heartbeats_ms: list[int] = field(default_factory=list)
    is_over: bool = True
    disconnected_ms: int | None = None

    def timeout_ms(self, now_ms: int) -> int:
        late = [
            max(0, later - earlier - INTERVAL_MS)
            for earlier, later in zip(self.heartbeats_ms, self.heartbeats_ms[1:], strict=False)
            if later - earlier <= CEILING_MS and later // WIDTH_MS > now_ms // WIDTH_MS - BUCKETS
        ]
        return min(max(INTERVAL_MS + FACTOR * max(late, default=0), FLOOR_MS), CEILING_MS)

    def is_expired(self, now_ms: int) -> bool:
        if self.is_over:
            return False
        is_silent = now_ms - self.heartbeats_ms[-1] >= self.timeout_ms(now_ms)
        return is_silent or (self.disconnected_ms is not None and now_ms - self.disconnected_ms >= FLOOR_MS)


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 4_000) | st.sampled_from((1, 300, 1_499, 1_500, 9_000, 61_000)),
        st.sampled_from(("heartbeat", "heartbeat", "heartbeat", "disconnect", "look", "restart")),
        st.sampled_from(NODES),
    ),
    max_size=60,
)


@given(EVENTS)
def test_detector_equals_the_naive_one(events: list[tuple[int, str, int]]) -> None:
    """Random heartbeats, disconnects, restarts and checks: the same nodes are fenced at the same checks."""
    sessions = Sessions(HeartbeatDelays(INTERVAL_MS, FLOOR_MS, CEILING_MS))
    naive = {node: Naive() for node in NODES}
    now_ms = 0
    for wait_ms, event, node in events:
        now_ms += wait_ms
        own = naive[node]
        if event == "heartbeat":
            sessions.touch(node, now_ms)
            own.heartbeats_ms.append(now_ms)
            own.is_over, own.disconnected_ms = False, None
        elif event == "disconnect":
            sessions.disconnected(node, now_ms)
            own.disconnected_ms = now_ms
        elif event == "restart":
            sessions.forget(node)
            naive[node] = Naive()
        else:
            expired = [each for each in NODES if naive[each].is_expired(now_ms)]
            assert sessions.expired(now_ms) == expired
            for each in expired:
                sessions.expire(each)
                naive[each].is_over = True
        for each in NODES:
            assert sessions.timeout_ms(each, now_ms) == naive[each].timeout_ms(now_ms)


@given(st.lists(st.integers(1, 1_499), min_size=1, max_size=50))
def test_no_node_that_sends_within_the_floor_is_fenced(gaps_ms: list[int]) -> None:
    """A node is live within the floor, whatever its earlier heartbeats, and dead after the ceiling."""
    sessions = Sessions(HeartbeatDelays(INTERVAL_MS, FLOOR_MS, CEILING_MS))
    now_ms = 0
    sessions.touch(1, now_ms)
    for gap_ms in gaps_ms:
        now_ms += gap_ms
        assert not sessions.expired(now_ms)
        sessions.touch(1, now_ms)
    assert sessions.expired(now_ms + CEILING_MS) == [1]
