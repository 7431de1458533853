"""What the log of the active controller says of each node: which one, when, why, and what moves."""

from __future__ import annotations

from typing import Any

from controller_kit import Driver, incarnation
from headrace.controller.state.node_notes import MAX_NOTES, NodeNotes, leader_moves
from headrace.protocol.messages.control import DrainNodeRequest
from headrace.protocol.metadata.image import MetadataImage


def driver_of_three(**config: Any) -> Driver:
    """Three active nodes; node 1 leads two of four partitions, each of which another replica can lead."""
    driver = Driver(**config)
    driver.join(1, 2, 3)
    driver.place("t", (1, 2), (1, 3), (2, 3), (3, 1))
    driver.core.notes.take()
    return driver


def lines(driver: Driver) -> list[str]:
    return [("WARNING " if note.is_warning else "") + note.text for note in driver.core.notes.take()]


def heartbeats(driver: Driver, *node_ids: int, ms: int, every_ms: int = 300) -> None:
    """These nodes send heartbeats for so long, and nobody else does."""
    for _ in range(0, ms, every_ms):
        driver.wait(every_ms)
        for node_id in node_ids:
            driver.beat(node_id)


def test_a_session_that_runs_out_names_node_time_and_moves() -> None:
    """Node 1 is silent; its two partitions go to the two others."""
    driver = driver_of_three()
    epoch = driver.image.brokers[1].broker_epoch
    heartbeats(driver, 2, 3, ms=1_500)
    assert lines(driver) == [
        f"WARNING fencing node 1 (broker epoch {epoch}): session timeout: last heartbeat 1500 ms ago, "
        "expected within 1500 ms (its heartbeats of the last minute were up to 0 ms late); 2 leaderships "
        "move: 1 to node 2, 1 to node 3"
    ]


def test_its_return_is_noted_and_late_heartbeats_lengthen_the_session() -> None:
    """It comes back 600 ms after it was fenced: 1,800 ms late, so it may be late for 5.7 s from then on."""
    driver = driver_of_three()
    epoch = driver.image.brokers[1].broker_epoch
    heartbeats(driver, 2, 3, ms=2_100)
    driver.core.notes.take()
    driver.beat(1)
    assert lines(driver) == [f"unfencing node 1 (broker epoch {epoch}); 0 leaderships move"]
    heartbeats(driver, 2, 3, ms=5_400)
    assert lines(driver) == []
    heartbeats(driver, 2, 3, ms=300)
    assert (
        "expected within 5700 ms (its heartbeats of the last minute were up to 1800 ms late)"
        in lines(driver)[0]
    )


def test_the_last_replica_leaves_its_partition_without_a_leader() -> None:
    """Nodes 1 and 3 go; the partition of both has no leader then."""
    driver = driver_of_three()
    heartbeats(driver, 2, ms=1_500)
    assert lines(driver)[1].endswith("; 0 leaderships move; 2 partitions are left without a leader")


def test_a_dead_process_is_named() -> None:
    """Ray's notice ends the session at once."""
    driver = driver_of_three()
    driver.core.note_ended({incarnation(1)})
    driver.wait(10)
    assert "): its process has ended, as Ray reports; last heartbeat 10 ms ago; " in lines(driver)[0]


def test_the_end_of_its_connection_brings_the_floor_back_for_a_late_node() -> None:
    """Its heartbeats were 900 ms late, so it has 3 s; its process is killed: 1.5 s after its connection
    ended. The end of a connection of a process before means nothing."""
    driver = driver_of_three()
    heartbeats(driver, 2, 3, ms=1_200)
    driver.beat(1)
    epoch = driver.image.brokers[1].broker_epoch
    heartbeats(driver, 2, 3, ms=300)
    driver.core.note_disconnected(1, epoch, driver.now_ms)
    driver.core.note_disconnected(3, epoch - 1, driver.now_ms)
    heartbeats(driver, 2, 3, ms=1_200)
    assert lines(driver) == []
    heartbeats(driver, 2, 3, ms=300)
    line = "its connection ended 1500 ms ago and no heartbeat came since; last heartbeat 1800 ms ago"
    assert line in lines(driver)[0]
    assert lines(driver) == []


def test_shutdown_registration_drain_and_removal_are_noted() -> None:
    """What an operator does, in the words of the log."""
    driver = driver_of_three()
    epoch = driver.image.brokers[1].broker_epoch
    driver.beat(1, want_shutdown=True)
    for node_id in (2, 3):
        driver.beat(node_id)
    driver.beat(1, want_shutdown=True)
    assert lines(driver) == [
        f"controlled shutdown of node 1 (broker epoch {epoch}); 2 leaderships move: 1 to node 2, 1 to node 3",
        f"fencing node 1 (broker epoch {epoch}): its controlled shutdown is complete; 0 leaderships move",
    ]
    driver.register(1, process=11, previous_broker_epoch=epoch)
    newer = driver.image.brokers[1].broker_epoch
    driver.register(1, process=11, port=9_001)
    assert lines(driver) == [
        f"registering node 1 at localhost:9000 as broker epoch {newer}, whose process before, epoch {epoch}, "
        "ended in order; 0 leaderships move",
        f"registering node 1 at localhost:9001 as broker epoch {newer}, the same process with other facts; "
        "0 leaderships move",
    ]
    driver.ask(DrainNodeRequest(2, is_drained=True))
    assert lines(driver)[0].startswith("draining node 2 (broker epoch ")


def test_notes_are_bounded_and_given_once() -> None:
    """A controller whose shell takes none keeps the newest."""
    notes = NodeNotes()
    for number in range(MAX_NOTES + 1):
        notes.say(str(number))
    taken = notes.take()
    assert (len(taken), taken[-1].text) == (MAX_NOTES, str(MAX_NOTES))
    assert notes.take() == ()


def test_nothing_moves_without_records() -> None:
    """As of a node that leads nothing."""
    assert leader_moves(MetadataImage(), ()) == "0 leaderships move"
