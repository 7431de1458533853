"""Log lines of the active controller about nodes: the node, the reason, and the leaderships that move."""

from typing import Any

import pytest
from controller_kit import Driver, incarnation
from headrace.controller.state.node_notes import MAX_NOTES, NodeNotes, leader_moves
from headrace.protocol.messages.control import DrainNodeRequest
from headrace.protocol.metadata.image import MetadataImage


@pytest.fixture
def driver(**config: Any) -> Driver:
    """Three active nodes; node 1 leads two of four partitions, each of which another replica can lead."""
    driver = Driver(**config)
    driver.join(1, 2, 3)
    driver.place("t", (1, 2), (1, 3), (2, 3), (3, 1))
    driver.core.notes.take()
    return driver


def lines(driver: Driver) -> list[str]:
    return [("WARNING " if note.is_warning else "") + note.text for note in driver.core.notes.take()]


def heartbeats(driver: Driver, *node_ids: int, ms: int, every_ms: int = 300) -> None:
    """Only these nodes send heartbeats, for `ms`."""
    for _ in range(0, ms, every_ms):
        driver.wait(every_ms)
        for node_id in node_ids:
            driver.heartbeat(node_id)


def test_an_expired_session_names_node_timeout_and_moves(driver: Driver) -> None:
    """Node 1 sends no heartbeat; the two other nodes become leaders of its partitions."""
    epoch = driver.image.brokers[1].broker_epoch
    heartbeats(driver, 2, 3, ms=1_500)
    assert lines(driver) == [
        f"WARNING fencing node 1 (broker epoch {epoch}): session timeout of 1500 ms: last "
        "heartbeat 1500 ms ago (its heartbeats of the last minute were up to 0 ms late); 2 leaderships "
        "move: 1 to node 2, 1 to node 3"
    ]


def test_unfencing_is_logged_and_late_heartbeats_lengthen_the_session(driver: Driver) -> None:
    """A heartbeat 600 ms after the fencing is 1,800 ms late: the next session timeout is 5.7 s."""
    epoch = driver.image.brokers[1].broker_epoch
    heartbeats(driver, 2, 3, ms=2_100)
    driver.core.notes.take()
    driver.heartbeat(1)
    assert lines(driver) == [f"unfencing node 1 (broker epoch {epoch}); 0 leaderships move"]
    heartbeats(driver, 2, 3, ms=5_400)
    assert lines(driver) == []
    heartbeats(driver, 2, 3, ms=300)
    assert (
        "session timeout of 5700 ms: last heartbeat 5700 ms ago (its heartbeats of the last minute were up "
        "to 1800 ms late)" in lines(driver)[0]
    )


def test_partitions_left_without_a_leader_are_counted(driver: Driver) -> None:
    """Nodes 1 and 3 are fenced, the only replicas of two partitions."""
    heartbeats(driver, 2, ms=1_500)
    assert lines(driver)[1].endswith("; 0 leaderships move; 2 partitions are left without a leader")


def test_the_report_of_a_dead_process_is_named(driver: Driver) -> None:
    """Ray's notice expires the session at once."""
    driver.core.note_ended({incarnation(1)})
    driver.wait(10)
    assert "): Ray reported the end of its process; last heartbeat 10 ms ago; " in lines(driver)[0]


def test_a_closed_connection_ends_the_longer_session_of_a_late_node(driver: Driver) -> None:
    """Its heartbeats were 900 ms late: a timeout of 3 s, and 1.5 s once its connection has closed. The
    connection of a previous process does not count."""
    heartbeats(driver, 2, 3, ms=1_200)
    driver.heartbeat(1)
    epoch = driver.image.brokers[1].broker_epoch
    heartbeats(driver, 2, 3, ms=300)
    driver.core.note_disconnected(1, epoch, driver.now_ms)
    driver.core.note_disconnected(3, epoch - 1, driver.now_ms)
    heartbeats(driver, 2, 3, ms=1_200)
    assert lines(driver) == []
    heartbeats(driver, 2, 3, ms=300)
    line = "its connection closed 1500 ms ago, no heartbeat since; last heartbeat 1800 ms ago"
    assert line in lines(driver)[0]
    assert lines(driver) == []


def test_shutdown_registration_and_drain_are_logged(driver: Driver) -> None:
    """One line each, with the leaderships that move."""
    epoch = driver.image.brokers[1].broker_epoch
    driver.heartbeat(1, want_shutdown=True)
    for node_id in (2, 3):
        driver.heartbeat(node_id)
    driver.heartbeat(1, want_shutdown=True)
    assert lines(driver) == [
        f"controlled shutdown of node 1 (broker epoch {epoch}); 2 leaderships move: 1 to node 2, 1 to node 3",
        f"fencing node 1 (broker epoch {epoch}): its controlled shutdown is complete; 0 leaderships move",
    ]
    driver.register(1, process=11, previous_broker_epoch=epoch)
    newer = driver.image.brokers[1].broker_epoch
    driver.register(1, process=11, port=9_001)
    assert lines(driver) == [
        f"registering node 1 at localhost:9000 as broker epoch {newer}, whose previous process, epoch "
        f"{epoch}, shut down cleanly; 0 leaderships move",
        f"registering node 1 at localhost:9001 as broker epoch {newer}, the same process with a changed "
        "address, rack or log dirs; 0 leaderships move",
    ]
    driver.ask(DrainNodeRequest(2, is_drained=True))
    assert lines(driver)[0].startswith("draining node 2 (broker epoch ")


def test_lines_are_bounded_and_taken_once() -> None:
    """The newest lines are kept."""
    notes = NodeNotes()
    for number in range(MAX_NOTES + 1):
        notes.add(str(number))
    taken = notes.take()
    assert (len(taken), taken[-1].text) == (MAX_NOTES, str(MAX_NOTES))
    assert notes.take() == ()


def test_nothing_moves_without_records() -> None:
    """A node that leads nothing."""
    assert leader_moves(MetadataImage(), ()) == "0 leaderships move"
