"""Which segments expire, compared with a naive version of Kafka's rules."""

from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import pytest
from headrace.storage_node.log.config import LogConfig
from headrace.storage_node.log.retention import Expired, expired_segments
from hypothesis import given

NOW = 1_700_000_000_000
HOUR = 3_600_000


@dataclass
class Piece:
    """What a segment is for retention."""

    base_offset: int
    next_offset: int
    size_bytes: int
    largest_timestamp_ms: int
    created_ms: int = NOW


def log_of(*pieces: tuple[int, int, int]) -> list[Any]:
    """Segments with these record counts, bytes and ages in hours."""
    made, offset = [], 0
    for records, size, hours in pieces:
        made.append(Piece(offset, offset + records, size, NOW - hours * HOUR))
        offset += records
    return made


def expired(segments: list[Any], *, start: int = 0, watermark: int | None = None, **keys: Any) -> Expired:
    config = LogConfig(**({"retention_ms": -1} | keys))
    end = segments[-1].next_offset
    return expired_segments(
        segments,
        config,
        log_start_offset=start,
        high_watermark=end if watermark is None else watermark,
        wall_ms=NOW,
    )


AGED = log_of((10, 100, 9), (10, 100, 8), (10, 100, 2), (10, 100, 1))


def test_no_limit_expires_nothing() -> None:
    assert expired(AGED) == (0, 0, False)


def test_retention_ms_ends_at_the_first_young_segment() -> None:
    """The age is that of the newest record; exactly the limit does not expire."""
    assert expired(AGED, retention_ms=3 * HOUR) == (2, 20, False)
    assert expired(AGED, retention_ms=8 * HOUR) == (1, 10, False)
    assert expired(AGED, retention_ms=9 * HOUR) == (0, 0, False)


def test_young_segment_keeps_later_segments() -> None:
    """A log has no holes: a record from the future keeps everything after it."""
    assert expired(log_of((10, 100, 9), (10, 100, -5), (10, 100, 9)), retention_ms=HOUR) == (1, 10, False)


def test_log_may_expire_as_a_whole() -> None:
    """The active segment must be rolled first; an empty one stays."""
    assert expired(AGED, retention_ms=0) == (4, 40, True)
    assert expired([*AGED, Piece(40, 40, 0, -1)], retention_ms=0) == (4, 40, False)


def test_records_without_timestamp_age_from_segment_creation() -> None:
    """Otherwise they would expire at once, or never."""
    pieces = [Piece(0, 10, 100, -1, NOW - 5 * HOUR), Piece(10, 20, 100, NOW)]
    assert expired(pieces, retention_ms=4 * HOUR) == (1, 10, False)
    assert expired(pieces, retention_ms=6 * HOUR) == (0, 0, False)


@pytest.mark.parametrize(
    ("limit", "count"), [(0, 4), (1, 3), (99, 3), (100, 3), (101, 2), (300, 1), (399, 0), (400, 0)]
)
def test_retention_bytes_keeps_at_least_the_limit(limit: int, count: int) -> None:
    """A segment expires only if the rest has the limit without it."""
    assert expired(AGED, retention_bytes=limit).segments == count


@pytest.mark.parametrize("limit", [-1, -2, -(2**63)])
def test_negative_retention_bytes_is_no_limit(limit: int) -> None:
    """Kafka accepts every negative number."""
    config = LogConfig.of({"retention.bytes": str(limit)})
    assert expired(AGED, retention_bytes=config.retention_bytes).segments == 0


def test_retention_bytes_and_ms_apply_together() -> None:
    """What one keeps, the other may expire."""
    assert expired(AGED, retention_bytes=350, retention_ms=5 * HOUR).segments == 2


@pytest.mark.parametrize(("watermark", "count"), [(0, 0), (9, 0), (10, 1), (39, 3), (40, 4)])
def test_nothing_above_the_high_watermark_expires(watermark: int, count: int) -> None:
    """Followers may still need it."""
    assert expired(AGED, watermark=watermark, retention_ms=0).segments == count


def test_segments_below_log_start_expire_under_every_policy() -> None:
    """The active segment stays."""
    for policy in (("delete",), ("compact",), ()):
        assert expired(AGED, start=20, cleanup_policy=policy) == (2, 20, False)
        assert expired(AGED, start=25, cleanup_policy=policy) == (2, 25, False)
        assert expired(AGED, start=40, cleanup_policy=policy) == (3, 40, False)


def test_limits_apply_to_policy_delete_only() -> None:
    """A compacted topic has no limits, unless its policy is both."""
    limits = {"retention_ms": 0, "retention_bytes": 0}
    assert expired(AGED, cleanup_policy=("compact",), **limits).segments == 0
    assert expired(AGED, cleanup_policy=(), **limits).segments == 0
    assert expired(AGED, cleanup_policy=("compact", "delete"), **limits).segments == 4


def test_log_start_inside_a_segment_stays() -> None:
    """It is not moved back to the base offset."""
    assert expired(AGED, start=13, retention_ms=8 * HOUR) == (1, 13, False)


# --- against an oracle ------------------------------------------------------------------------------------


def oracle(
    pieces: list[Piece], config: LogConfig, start: int, watermark: int, wall_ms: int
) -> tuple[list[int], bool]:
    """Base offsets that expire, and whether a new segment is needed: three passes, each removing the oldest
    segment until one stays."""
    left, gone, has_rolled = list(pieces), list[int](), False

    def take(rule: Any) -> None:
        nonlocal has_rolled
        while left and not has_rolled:
            first = left[0]
            following = left[1] if len(left) > 1 else None
            end = following.base_offset if following else first.next_offset
            if end > watermark or (following is None and not first.size_bytes) or not rule(first, following):
                return
            gone.append(left.pop(0).base_offset)
            has_rolled = not left

    take(lambda _, following: following is not None and following.base_offset <= start)
    if "delete" in config.cleanup_policy:
        if config.retention_bytes >= 0:
            take(
                lambda first, _: sum(p.size_bytes for p in left) - first.size_bytes >= config.retention_bytes
            )
        if config.retention_ms >= 0:

            def is_old(first: Piece, _: Piece | None) -> bool:
                known = first.largest_timestamp_ms >= 0
                return (
                    wall_ms - (first.largest_timestamp_ms if known else first.created_ms)
                    > config.retention_ms
                )

            take(is_old)
    return gone, has_rolled


PIECES = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 50), st.one_of(st.just(-1), st.integers(0, 100))), max_size=6
)


@given(
    shapes=PIECES,
    is_active_empty=st.booleans(),
    policy=st.sampled_from([("delete",), ("compact",), ("compact", "delete"), ()]),
    retention_ms=st.integers(-1, 60),
    retention_bytes=st.integers(-1, 150),
    start=st.integers(0, 30),
    watermark=st.integers(0, 30),
    wall_ms=st.integers(0, 120),
)
def test_rules_equal_the_oracle(
    shapes: list[tuple[int, int, int]],
    is_active_empty: bool,
    policy: tuple[str, ...],
    retention_ms: int,
    retention_bytes: int,
    start: int,
    watermark: int,
    wall_ms: int,
) -> None:
    """Any segments, config and offsets."""
    pieces, offset = [], 0
    for records, size, newest_ms in shapes:
        pieces.append(Piece(offset, offset + records, size, newest_ms, created_ms=50))
        offset += records
    if is_active_empty or not pieces:
        pieces.append(Piece(offset, offset, 0, -1, created_ms=50))
    start, watermark = min(start, offset), min(watermark, offset)
    config = LogConfig(cleanup_policy=policy, retention_ms=retention_ms, retention_bytes=retention_bytes)
    found = expired_segments(
        pieces,  # type: ignore[arg-type]
        config,
        log_start_offset=start,
        high_watermark=watermark,
        wall_ms=wall_ms,
    )
    gone, has_rolled = oracle(pieces, config, start, watermark, wall_ms)
    assert (found.segments, found.must_roll) == (len(gone), has_rolled)
    left = pieces[len(gone) :]
    assert found.start_offset == max(start, left[0].base_offset if left else offset if gone else 0)
