"""Each function of named aggregates against a naive one over all values."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from headrace.stream import Aggregate, Collect, Count, Distinct, First, Last, Max, Mean, Min, Sum, TopN
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.lists(st.integers(-5, 5), max_size=12)


def ranked(values: list[Any], *, smallest: bool) -> list[Any]:
    return sorted(values, key=lambda pair: pair[0], reverse=not smallest)


def by_time(pairs: list[Any], *, last: bool) -> Any:
    ordered = sorted(pairs, key=lambda pair: pair[0])  # stable: equal times in order of arrival
    return (ordered[-1] if last else ordered[0])[1] if ordered else None


NAIVE: list[tuple[Aggregate[Any], Any]] = [
    (Count(), len),
    (Sum(), sum),
    (Mean(), lambda values: float(Fraction(sum(values), len(values))) if values else None),
    (Min(), lambda values: min(values, default=None)),
    (Max(), lambda values: max(values, default=None)),
    (Distinct(limit=3), lambda values: list(dict.fromkeys(values))[:3]),
    (Collect(limit=4), lambda values: values[:4]),
    (Collect(limit=4, keep="last"), lambda values: values[-4:]),
    (TopN(3), lambda values: sorted(values, reverse=True)[:3]),
    (TopN(3, smallest=True), lambda values: sorted(values)[:3]),
]
NAIVE_PAIRS: list[tuple[Aggregate[Any], Any]] = [
    (First(), lambda pairs: by_time(pairs, last=False)),
    (Last(), lambda pairs: by_time(pairs, last=True)),
    (TopN(3, by=str), lambda pairs: [value for _, value in ranked(pairs, smallest=False)[:3]]),
    (
        TopN(3, by=str, smallest=True),
        lambda pairs: [value for _, value in ranked(pairs, smallest=True)[:3]],
    ),
]


def check(aggregate: Aggregate[Any], naive: Any, values: list[Any], cut: int) -> None:
    """One by one, all together, and as two sessions that are merged."""
    state = aggregate.empty
    for value in values:
        state = aggregate.add(state, value)
    assert aggregate.result(state) == naive(values)
    if values:
        assert aggregate.result(aggregate.add_all(aggregate.empty, values)) == naive(values)
    earlier, later = values[:cut], values[cut:]
    if earlier and later:
        halves = [aggregate.add_all(aggregate.empty, each) for each in (earlier, later)]
        assert aggregate.result(aggregate.merge(*halves)) == naive(values)
        assert aggregate.add_all(halves[0], later) == state
    assert aggregate.result(aggregate.merge(aggregate.empty, state)) == naive(values)
    assert aggregate.result(aggregate.merge(state, aggregate.empty)) == naive(values)


@pytest.mark.parametrize(("aggregate", "naive"), NAIVE, ids=lambda each: getattr(each, "kind", ""))
@given(values=VALUES, cut=st.integers(0, 12))
def test_results_equal_those_of_all_values(
    aggregate: Aggregate[Any], naive: Any, values: list[int], cut: int
) -> None:
    """Values are added one by one, in runs, and by merging."""
    check(aggregate, naive, values, cut)


@pytest.mark.parametrize(("aggregate", "naive"), NAIVE_PAIRS, ids=lambda each: getattr(each, "kind", ""))
@given(times=VALUES, cut=st.integers(0, 12))
def test_results_by_time_or_rank_equal_those_of_all_values(
    aggregate: Aggregate[Any], naive: Any, times: list[int], cut: int
) -> None:
    """The values differ, so that it matters which one of equal times stays."""
    check(aggregate, naive, [[time, f"v{number}"] for number, time in enumerate(times)], cut)


@pytest.mark.parametrize("aggregate", [Count(), Sum(), Mean()])
@given(values=VALUES, order=st.randoms(use_true_random=False))
def test_values_can_be_subtracted_in_any_order(
    aggregate: Aggregate[Any], values: list[int], order: Any
) -> None:
    """Then nothing is left of them; a grouped table depends on it."""
    kept = [7, 8]
    everything = kept + values
    order.shuffle(everything)
    state = aggregate.add_all(aggregate.empty, everything)
    assert aggregate.subtract is not None
    for value in values:
        state = aggregate.subtract(state, value)
    assert aggregate.result(state) == aggregate.result(aggregate.add_all(aggregate.empty, kept))
    for value in kept:
        state = aggregate.subtract(state, value)
    assert aggregate.result(state) == aggregate.result(aggregate.empty)


def test_a_sum_of_floats_does_not_depend_on_runs() -> None:
    """In runs and one by one the same last bit: the additions are the same."""
    values = [0.1, 0.2, 0.3, 1e100, -1e100]
    one_by_one = None
    for value in values:
        one_by_one = Sum[Any]().add(one_by_one, value)
    assert Sum[Any]().add_all(None, values) == one_by_one


@pytest.mark.parametrize(
    "make",
    [lambda: TopN(0), lambda: Collect(limit=0), lambda: Distinct(limit=-1), lambda: TopN("x")],  # type: ignore[arg-type]
)
def test_limits_are_at_least_one(make: Any) -> None:
    """Where the aggregate is made."""
    with pytest.raises(ValueError, match="must be an int of at least 1"):
        make()


def test_collect_keeps_the_first_or_the_last() -> None:
    """Nothing else."""
    with pytest.raises(ValueError, match='"first" or "last", not \'all\''):
        Collect(keep="all")  # type: ignore[arg-type]
