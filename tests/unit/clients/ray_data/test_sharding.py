"""Shards of a training: every row once per epoch, with restarts and any number of workers."""

import json
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from headrace.clients.pipeline.ranges import OffsetRange
from headrace.clients.pipeline.source_options import read_options
from headrace.clients.ray_data.sharding import Place, Shards, first_place, own_place, place_from, spread
from headrace.protocol.errors import ConfigError

OPTIONS = read_options({"subscribe": "a,b"})
PLAN = Shards((OffsetRange("a", 0, 10, 47), OffsetRange("a", 1, 0, 3), OffsetRange("b", 0, 5, 65)), OPTIONS)
ALL = Counter((each.tp, offset) for each in PLAN.ranges for offset in range(each.start, each.end))


def rows(ranges: Iterable[OffsetRange]) -> list[Any]:
    return [(each.tp, offset) for each in ranges for offset in range(each.start, each.end)]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100, 200])
def test_shards_are_even_and_have_each_row_once(count: int) -> None:
    """Sizes differ by one at most, also with more shards than rows."""
    parts = [rows(PLAN.of(shard, count)) for shard in range(count)]
    assert Counter(row for part in parts for row in part) == ALL
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def begun(place: Place) -> Place:
    """The start of an iterator's epoch."""
    if place.rests:
        return place
    whole = PLAN.of(place.shard, place.count)
    return Place(place.shard, place.count, ((place.next_epoch, whole),), place.next_epoch + 1)


def read(place: Place, most: int, seen: Counter[Any]) -> Place:
    """Some rows more, across the ends of epochs."""
    while most > 0:
        place = begun(place)
        (epoch, ranges), later = place.rests[0], place.rests[1:]
        left = rows(ranges)
        taken = left[:most]
        seen.update((epoch, row) for row in taken)
        most -= len(taken)
        rest = tuple(_after(ranges, len(taken)))
        rests = ((epoch, rest), *later) if rest else later
        place = Place(place.shard, place.count, rests, place.next_epoch)
    return place


def _after(ranges: Iterable[OffsetRange], skip: int) -> Iterable[OffsetRange]:
    for each in ranges:
        gone = min(skip, each.size)
        skip -= gone
        if gone < each.size:
            yield each._replace(start=each.start + gone)


@pytest.mark.parametrize("seed", range(30))
def test_any_number_of_workers_resumes_exactly(seed: int) -> None:
    """After random stops in different epochs, each finished epoch has each row once."""
    random, seen = Random(seed), Counter[Any]()
    count = random.randint(1, 4)
    places = [first_place(shard, count) for shard in range(count)]
    for _ in range(random.randint(1, 5)):
        places = [read(place, random.randint(0, 60), seen) for place in places]
        states = [json.loads(json.dumps(place.state(PLAN.mark))) for place in places]
        random.shuffle(states)
        count = random.randint(1, 4)
        places = [place_from(PLAN, states, shard, count) for shard in range(count)]
    last = max(each.next_epoch for each in places)
    for place in places:
        while place.next_epoch < last or place.rests:
            place = begun(place)
            for epoch, ranges in place.rests:
                seen.update((epoch, row) for row in rows(ranges))
            place = Place(place.shard, place.count, (), place.next_epoch)
    assert seen == Counter({(epoch, row): 1 for epoch in range(last) for row in ALL})


def test_same_number_of_workers_keeps_its_shards() -> None:
    """The rows are not divided again."""
    seen = Counter[Any]()
    places = [read(first_place(shard, 3), 5 * shard, seen) for shard in range(3)]
    states = [place.state(PLAN.mark) for place in places]
    assert [place_from(PLAN, states, shard, 3) for shard in range(3)] == places
    assert own_place(PLAN, states[2], 2, 3) == places[2]


def test_workers_of_a_loader_share_the_remaining_rows() -> None:
    """Of started epochs too; their shards are those of more workers."""
    place = read(first_place(1, 2), 10, Counter())
    parts = [spread(place, number, 3) for number in range(3)]
    assert [(part.shard, part.count) for part in parts] == [(3, 6), (4, 6), (5, 6)]
    assert [row for part in parts for row in rows(part.rests[0][1])] == rows(place.rests[0][1])
    assert [row for part in parts for row in rows(PLAN.of(part.shard, part.count))] == rows(PLAN.of(1, 2))


def test_incompatible_states_are_errors() -> None:
    """The error has the cause."""
    states = [first_place(shard, 3).state(PLAN.mark) for shard in range(3)]
    other = Shards(PLAN.ranges[:2], OPTIONS)
    for given, text in [
        (states[:2], "0 of 3.*1 of 3"),
        ([states[0], *states[:2]], "once each"),
        ([], "states of all shards"),
        ([{**states[0], "form": 2}], "in format 1"),
        ([{**states[0], "rests": [[0, [["a", 9, 0, 1]]]]}], "not the state of a shard"),
        (["x"], "not the state of a shard"),
    ]:
        with pytest.raises(ConfigError, match=text):
            place_from(PLAN, given, 0, 2)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="another plan"):
        place_from(other, states, 0, 2)
    with pytest.raises(ConfigError, match="shard 0 of 3, not 1 of 2"):
        own_place(PLAN, states[0], 1, 2)
    with pytest.raises(ConfigError, match="shard 2 of 2 does not exist"):
        first_place(2, 2)
