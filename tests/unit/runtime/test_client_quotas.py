"""Which quota holds for whom, and that what a client does under it stays below it: with simulated time."""

from headrace.runtime.client_quotas import (
    EXPIRY_MS,
    MAX_METERS,
    ApplicableQuota,
    ClientQuotas,
    Rate,
    Windows,
    largest,
)
from hypothesis import given
from hypothesis import strategies as st

KEY, WINDOWS = "producer_byte_rate", Windows(11, 1_000)
PERCENT, MUTATIONS = "request_percentage", "controller_mutation_rate"
# Quota entities, the most specific first, and the clients that share them.
LEVELS = [
    ((("client-id", "c"), ("user", "u")), ("u", "c")),
    ((("client-id", None), ("user", "u")), ("u", "c")),
    ((("user", "u"),), ("u", "")),
    ((("client-id", "c"), ("user", None)), ("u", "c")),
    ((("client-id", None), ("user", None)), ("u", "c")),
    ((("user", None),), ("u", "")),
    ((("client-id", "c"),), ("", "c")),
    ((("client-id", None),), ("", "c")),
]


def quotas(**values: float) -> ClientQuotas:
    """Of all client ids, each by itself."""
    made = ClientQuotas()
    made.follow({(("client-id", None),): values})
    return made


def test_most_specific_quota_applies() -> None:
    """It hides the less specific ones for a client that matches all of them."""
    for first in range(len(LEVELS)):
        made = ClientQuotas()
        made.follow(
            {entity: {KEY: 1.0 + number} for number, (entity, _) in enumerate(LEVELS) if number >= first}
        )
        assert made.of_client(KEY, "u", "c") == ApplicableQuota(1.0 + first, (KEY, *LEVELS[first][1]))
        assert made.of_client("consumer_byte_rate", "u", "c") is None
    only = ClientQuotas()
    only.follow({LEVELS[0][0]: {KEY: 1.0}})
    assert only.of_client(KEY, "u", "other") is None
    assert only.of_client(KEY, "other", "c") is None


def test_quota_of_another_kind_hides_nothing() -> None:
    """A key that an entity does not set is taken from the next entity."""
    made = ClientQuotas()
    made.follow({LEVELS[0][0]: {PERCENT: 1.0}, LEVELS[7][0]: {KEY: 5.0}})
    assert made.of_client(KEY, "u", "c") == ApplicableQuota(5.0, (KEY, "", "c"))
    assert made.has(KEY)
    assert not made.has("consumer_byte_rate")


def test_addresses_have_own_quotas() -> None:
    """Or the default, for each address."""
    made = ClientQuotas()
    made.follow({(("ip", "1.2.3.4"),): {"connection_creation_rate": 5.0}})
    assert made.of_address("9.9.9.9") is None
    made.follow({(("ip", "0:0:0::1"),): {"connection_creation_rate": 7.0}})
    assert made.of_address("::1") == ApplicableQuota(7.0, ("connection_creation_rate", "::1", ""))
    assert made.of_address("::FFFF:1.2.3.4") is None
    made.follow({(("ip", "1.2.3.4"),): {"connection_creation_rate": 5.0}})
    response = "::ffff:1.2.3.4"  # by a socket of both families
    assert made.of_address(response) == ApplicableQuota(5.0, ("connection_creation_rate", "1.2.3.4", ""))
    made.follow({(("ip", "fe80::1"),): {"connection_creation_rate": 5.0}})
    assert made.of_address("fe80::1%eth0") == ApplicableQuota(
        5.0, ("connection_creation_rate", "fe80::1", "")
    )
    made.follow({(("ip", response),): {"connection_creation_rate": 6.0}})
    assert made.of_address("1.2.3.4") == ApplicableQuota(6.0, ("connection_creation_rate", "1.2.3.4", ""))
    made.follow({(("ip", None),): {"connection_creation_rate": 2.0}})
    assert made.of_address("9.9.9.9") == ApplicableQuota(2.0, ("connection_creation_rate", "9.9.9.9", ""))


def test_throttle_time_equals_kafkas() -> None:
    """Ten windows are over, or count as if they were: one second's worth too much takes one second."""
    made = quotas(**{KEY: 100.0})
    held = made.of_client(KEY, "u", "c")
    assert held is not None
    assert made.record(held, 1_000, 50_000, WINDOWS) == 0
    assert made.record(held, 100, 50_000, WINDOWS) == 1_000
    assert made.record(held, -100, 50_000, WINDOWS) == 0
    assert largest(held, WINDOWS) == 1_000
    assert made.throttle_ms(held, 61_000, WINDOWS) == 0
    other = made.of_client(KEY, "u", "other")
    assert other is not None
    assert made.throttle_ms(other, 50_000, WINDOWS) == 0


def test_request_time_throttles_for_one_window_at_most() -> None:
    made = quotas(**{PERCENT: 1.0})
    held = made.of_client(PERCENT, "u", "c")
    assert held is not None
    assert made.record(held, 1e9, 5, WINDOWS) == 1_000


def test_connections_are_throttled_for_one_window_at_most() -> None:
    """Also where the quota was lowered far below their number."""
    made = ClientQuotas()
    for rate, wait_ms in ((1_000.0, 0), (1.0, 1_000)):
        made.follow({(("ip", None),): {"connection_creation_rate": rate}})
        held = made.of_address("9.9.9.9")
        assert held is not None
        assert made.record(held, 1_000, 5, WINDOWS) == wait_ms


def test_mutations_may_come_in_a_burst() -> None:
    """As many as all windows allow, and one more request; later ones are throttled."""
    made = quotas(**{MUTATIONS: 2.0})
    held = made.of_client(MUTATIONS, "u", "c")
    assert held is not None
    assert made.record(held, 22, 7_000, WINDOWS) == 0
    assert made.record(held, 10, 7_000, WINDOWS) == 5_000
    assert made.throttle_ms(held, 11_000, WINDOWS) == 1_000
    assert made.throttle_ms(held, 12_000, WINDOWS) == 0


def kafka_throttle_ms(events: list[tuple[int, int]], now_ms: int, bound: int, windows: Windows) -> int:
    """What Rate.java and ClientQuotaManager.java make of all values that ever came, each with its time."""
    number, window_ms = windows
    samples: list[list[tuple[int, int]]] = []
    for value, at_ms in events:
        if not samples or at_ms - samples[-1][0][1] >= window_ms:
            samples = [*samples[-number:], []]
        samples[-1].append((value, at_ms))
    samples = [sample for sample in samples if now_ms - sample[-1][1] < number * window_ms]
    elapsed_ms = now_ms - samples[0][0][1] if samples else 0
    elapsed_ms += max(number - 1 - elapsed_ms // window_ms, 0) * window_ms
    elapsed_ms = max(elapsed_ms, window_ms)
    rate = sum(value for sample in samples for value, _ in sample) * 1000 / elapsed_ms
    return round((rate - bound) / bound * elapsed_ms) if rate > bound else 0


@given(
    st.lists(st.tuples(st.integers(-500, 5_000), st.integers(0, 4_000), st.booleans()), max_size=60),
    st.integers(1, 2_000),
    st.integers(1, 12),
    st.sampled_from([100, 1_000, 3_000]),
)
def test_throttle_time_equals_the_oracle(
    steps: list[tuple[int, int, bool]], bound: int, count: int, window_ms: int
) -> None:
    """After each value and at times between, whether or not the client waits."""
    windows, made, now_ms = Windows(count, window_ms), quotas(**{KEY: float(bound)}), 1_000
    held = made.of_client(KEY, "u", "c")
    assert held is not None
    events: list[tuple[int, int]] = []
    for value, pause_ms, is_obedient in steps:
        events.append((value, now_ms))
        wait_ms = made.record(held, value, now_ms, windows)
        assert wait_ms == kafka_throttle_ms(events, now_ms, bound, windows)
        now_ms += pause_ms + (wait_ms if is_obedient else 0)
        assert made.throttle_ms(held, now_ms, windows) == kafka_throttle_ms(events, now_ms, bound, windows)


@given(
    st.lists(st.tuples(st.integers(1, 5_000), st.integers(0, 3_000)), min_size=1, max_size=60),
    st.integers(1, 2_000),
    st.integers(2, 12),
    st.sampled_from([100, 1_000, 3_000]),
)
def test_client_that_waits_stays_below_the_quota(
    steps: list[tuple[int, int]], bound: int, count: int, window_ms: int
) -> None:
    """Over any time that begins with the first value: a set of windows holds their quota, and the one value
    above it, which is no larger than they hold. Larger ones are dropped with their windows."""
    windows, made, now_ms = Windows(count, window_ms), quotas(**{KEY: float(bound)}), 1_000
    held = made.of_client(KEY, "u", "c")
    assert held is not None
    total, start_ms = 0.0, now_ms
    steps = [(min(value, max(bound * count * window_ms // 1000, 1)), pause) for value, pause in steps]
    for value, pause_ms in steps:
        allowed = 2 * bound * ((now_ms - start_ms) + (count + 1) * window_ms) / 1000
        assert total <= allowed + 1e-6 + max(step[0] for step in steps)
        total += value
        now_ms += made.record(held, value, now_ms, windows) + pause_ms


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 20_000)), max_size=60), st.integers(1, 50))
def test_token_bucket_never_gives_more_than_its_refill(steps: list[tuple[int, int]], bound: int) -> None:
    """And the burst, and one more request."""
    made, now_ms, total = quotas(**{MUTATIONS: float(bound)}), 0, 0
    held = made.of_client(MUTATIONS, "u", "c")
    assert held is not None
    for value, pause_ms in steps:
        if not made.throttle_ms(held, now_ms, WINDOWS):
            assert total <= bound * (11 + now_ms / 1000) + 1
            made.record(held, value, now_ms, WINDOWS)
            total += value
        now_ms += pause_ms


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 4_000)), max_size=40), st.integers(2, 12))
def test_rate_is_bounded_by_the_recorded_values(steps: list[tuple[int, int]], count: int) -> None:
    """It is at most their sum over the shortest window set, and 0 when all windows are over."""
    windows, rate, now_ms, total = Windows(count, 1_000), Rate(), 0, 0
    for value, pause_ms in steps:
        rate.record(value, now_ms, windows)
        total += value
        measured, elapsed_ms = rate.measure(now_ms, windows)
        assert 0 <= measured <= total * 1000 / elapsed_ms + 1e-6
        assert elapsed_ms >= max((count - 1) * 1_000, 1_000)
        now_ms += pause_ms
    assert rate.measure(now_ms + count * 1_000, windows)[0] == 0


def test_meters_are_bounded_and_expire() -> None:
    """However many client ids exist."""
    made, last_ms = quotas(**{KEY: 1.0}), MAX_METERS + 6
    for number in range(last_ms + 1):
        held = made.of_client(KEY, "u", f"c{number}")
        assert held is not None
        made.record(held, 50, number, WINDOWS)
    assert len(made) == MAX_METERS
    assert held is not None
    assert made.throttle_ms(held, last_ms + 1, WINDOWS) > 0
    made.expire(EXPIRY_MS + last_ms)
    assert len(made) == 1
    made.expire(EXPIRY_MS + last_ms + 1)
    assert len(made) == 0
