"""The base of all simulations: time, order, random streams, the network."""

from __future__ import annotations

from collections import Counter

import pytest
from network import FAIR, Network, Weather
from world import WALL_MS_AT_START, Pause, World

pytestmark = pytest.mark.sim


def test_events_run_in_order_of_time_then_of_planning() -> None:
    """During an event the clock shows its time; a cancelled event does not run."""
    world = World(1)
    seen: list[tuple[int, str]] = []

    def plan(delay_ms: int, name: str):
        return world.after(delay_ms, name, lambda: seen.append((world.now_ms, name)))

    plan(5, "b")
    plan(2, "a")
    plan(5, "c")
    plan(4, "never").cancel()
    world.after(5, "more", lambda: plan(0, "d"))
    world.run(5)
    assert seen == [(2, "a"), (5, "b"), (5, "c"), (5, "d")]
    assert (world.now_ms, world.wall_ms, world.events) == (5, WALL_MS_AT_START + 5, 5)
    with pytest.raises(AssertionError, match="late"):
        plan(-1, "x")


def test_events_keep_their_order_when_a_pause_is_shortened() -> None:
    """A request that arrives during a pause runs when the pause ends early, before later requests of its
    connection."""
    world = World(1)
    pause, seen = Pause(world), list[tuple[int, str]]()

    def come(name: str) -> None:
        pause.defer(name, lambda: seen.append((world.now_ms, name)))

    pause.begin(1_000)
    come("a")
    world.run(100)
    pause.begin(300)
    come("b")
    world.run(100)
    assert (seen, pause.is_on) == ([], True)
    pause.end()
    assert not pause.is_on
    world.after(0, "c", lambda: seen.append((world.now_ms, "c")))
    world.run(5_000)
    assert seen == [(200, "a"), (200, "b"), (200, "c")]


def test_events_keep_their_order_when_a_pause_is_extended() -> None:
    """A request that arrived before the extension runs before one that arrived after it."""
    world = World(1)
    pause, seen = Pause(world), list[str]()

    def come(name: str) -> None:
        pause.defer(name, lambda: come(name) if pause.is_on else seen.append(name))

    pause.begin(300)
    come("a")
    world.run(100)
    pause.begin(1_000)
    come("b")
    world.run(5_000)
    assert seen == ["a", "b"]


def test_a_run_ends_at_its_limit_or_at_its_condition() -> None:
    """Also between events; a run with too many events is stopped."""
    world = World(1)
    world.after(10, "ten", lambda: None)
    assert not world.run(5)
    assert world.now_ms == 5
    assert world.run(100, until=lambda: world.events == 1)
    assert world.now_ms == 105, "without further events the whole time passes"

    def spin() -> None:
        world.after(0, "spin", spin)

    spin()
    with pytest.raises(AssertionError, match="endless loop"):
        world.run(10, max_events=100)


def test_the_check_runs_after_every_event() -> None:
    """An AssertionError of the check ends the run at that event."""
    world = World(1)
    world.on_event = lambda: pytest.fail("broken") if world.events == 2 else None
    for _ in range(3):
        world.after(1, "x", lambda: None)
    with pytest.raises(pytest.fail.Exception):
        world.run(10)
    assert world.events == 2


def test_the_trace_depends_on_labels_times_and_draws() -> None:
    """Equal runs have equal hashes; another label or another seed changes the hash."""

    def run(seed: int, label: str) -> World:
        world = World(seed, keep_trace=True)
        world.after(world.random.randrange(1000), label, lambda: world.note("inside"))
        world.run(2000)
        return world

    assert run(1, "a").trace_hash == run(1, "a").trace_hash
    assert len({run(1, "a").trace_hash, run(2, "a").trace_hash, run(1, "b").trace_hash}) == 3
    lines = run(1, "a").lines
    assert lines is not None
    assert [line.split(" ")[1] for line in lines] == ["a", "inside"]


def test_random_streams_are_independent() -> None:
    """Drawing from one stream does not change the draws of another; seeds differ."""
    first, second = World(1), World(1)
    first.stream("a").random()
    assert first.stream("b").random() == second.stream("b").random()
    assert World(1).stream("a").random() != World(2).stream("a").random()


def messages(weather: Weather, count: int = 1000, prepare=lambda network: None) -> tuple[list[int], World]:
    """Send messages from 1 to 2, one per ms; returns their numbers in the order of arrival."""
    world = World(3)
    network = Network(world, weather)
    prepare(network)
    arrived: list[int] = []
    for number in range(count):
        world.run(1)
        network.send(1, 2, "m", lambda number=number: arrived.append(number))
    world.run(100_000)
    return arrived, world


def test_weather_loses_and_duplicates_messages() -> None:
    """Losses and duplicates have about the configured shares; fair weather has none."""
    arrived, _ = messages(FAIR)
    assert sorted(arrived) == list(range(1000))
    arrived, _ = messages(Weather(loss=0.2, duplicate=0.2))
    counts = Counter(Counter(arrived).values())
    assert 100 < 1000 - counts[1] - counts[2] < 300
    assert 80 < counts[2] < 250


def test_ordered_links_keep_the_order_of_messages() -> None:
    """A delayed message is overtaken on a link that is not ordered."""
    weather = Weather(min_delay_ms=5, mean_delay_ms=30)
    arrived, _ = messages(weather)
    assert arrived != sorted(arrived)
    arrived, _ = messages(Weather(min_delay_ms=5, mean_delay_ms=30, is_ordered=True))
    assert arrived == sorted(arrived)


def test_drop_loses_only_messages_in_flight() -> None:
    """As in a power loss of the network switches: later messages arrive."""
    world = World(1)
    network, arrived = Network(world), list[str]()
    network.send(1, 2, "m", lambda: arrived.append("before"))
    network.drop()
    network.send(1, 2, "m", lambda: arrived.append("after"))
    world.run(1000)
    assert arrived == ["after"]


def test_links_are_cut_one_way_and_clog() -> None:
    """A cut has a direction; `separate` cuts both; a clog delays messages; `heal` ends all of these."""
    assert messages(FAIR, prepare=lambda network: network.cut(1, 2))[0] == []
    assert len(messages(FAIR, prepare=lambda network: network.cut(2, 1))[0]) == 1000
    assert messages(FAIR, prepare=lambda network: network.separate([2, 3], [1]))[0] == []

    def heal(network: Network) -> None:
        network.separate([1], [2])
        network.clog(1, 2, 10**6)
        network.heal()

    assert len(messages(FAIR, prepare=heal)[0]) == 1000
    arrived, _ = messages(FAIR, prepare=lambda network: network.clog(1, 2, 500))
    assert len(arrived) == 1000
    world = World(1)
    network = Network(world)
    network.clog(1, 2, 500)
    times: list[int] = []
    network.send(1, 2, "m", lambda: times.append(world.now_ms))
    world.run(1000)
    assert times[0] >= 500
