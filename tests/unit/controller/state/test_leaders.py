"""Elections on request and by time: preferred, unclean, and the balance of leaders."""

import pytest
from controller_kit import Driver
from headrace.controller.state import leaders
from headrace.protocol import errors
from headrace.protocol.messages.control import ElectLeadersRequest, TopicPartitions

PREFERRED, UNCLEAN = 0, 1
BALANCE_MS = 300_000


def a_cluster(partitions: int = 1, **config) -> Driver:
    """Two nodes; partitions of "t" all on 1, 2, led by 1."""
    driver = Driver(**config)
    driver.join(1, 2)
    driver.place("t", *[(1, 2)] * partitions)
    return driver


def bounce(driver: Driver, *back: int) -> None:
    """Fence and unfence node 1; it is in sync again for the partitions `back`, and 2 leads all."""
    driver.fence(1)
    driver.heartbeat(1)
    for number in back:
        assert driver.alter_partition("t", number, (1, 2)).error_code == 0


def led(driver: Driver) -> list[int]:
    return [p.leader for p in driver.partitions("t")]


def later(driver: Driver, ms: int = BALANCE_MS) -> None:
    """Advance the clock while all nodes send heartbeats; then the periodic elections."""
    driver.now_ms += ms
    for node_id, broker in driver.image.brokers.items():
        if not broker.is_fenced:
            driver.heartbeat(node_id)
    driver.wait(10)


def test_preferred_elections() -> None:
    """To the first replica, with a new leader epoch; refused where it leads or is not in sync."""
    driver = a_cluster(3)
    bounce(driver, 0, 1)
    epoch = driver.partitions("t")[0].leader_epoch
    assert driver.elect(PREFERRED, "t", 0, 2, 5) == [
        0,
        errors.PreferredLeaderNotAvailableError.code,
        errors.UnknownTopicOrPartitionError.code,
    ]
    assert led(driver) == [1, 2, 2]
    assert driver.partitions("t")[0].leader_epoch == epoch + 1
    assert driver.elect(PREFERRED, "t", 0) == [errors.ElectionNotNeededError.code]
    assert driver.elect(PREFERRED, "none", 0) == [errors.UnknownTopicOrPartitionError.code]


def test_unclean_elections_on_request_need_no_config() -> None:
    """The operator decides; refused while there is a leader, or no active replica."""
    driver = a_cluster()
    assert driver.elect(UNCLEAN, "t", 0) == [errors.ElectionNotNeededError.code]
    assert driver.alter_partition("t", 0, (1,)).error_code == 0
    driver.fence(1)
    assert led(driver) == [-1]
    assert driver.elect(PREFERRED, "t", 0) == [errors.PreferredLeaderNotAvailableError.code]
    assert driver.elect(UNCLEAN, "t", 0) == [0]
    assert led(driver) == [2]
    driver.fence(2)
    driver.come_back(2, 22, is_clean=True)
    driver.fence(2)
    assert driver.elect(UNCLEAN, "t", 0) == [errors.EligibleLeadersNotAvailableError.code]


def test_an_unclean_election_can_choose_the_replica() -> None:
    """Of the replicas 2 and 3, both out of sync, the second one leads because the request names it; a line of
    the log says so. A node without a replica, and one that is not active, are errors."""
    driver = Driver()
    driver.join(1, 2, 3, 4)
    driver.place("t", (1, 2, 3))
    assert driver.alter_partition("t", 0, (1,)).error_code == 0
    driver.fence(1)

    def choose(node_id: int, kind: int = UNCLEAN) -> int:
        request = ElectLeadersRequest(kind, (TopicPartitions("t", (0,)),), node_id=node_id)
        reply = driver.ask(request)
        return reply.error_code or reply.results[0].error_code

    driver.core.notes.take()
    assert choose(4) == errors.InvalidRequestError.code
    assert choose(1) == errors.EligibleLeadersNotAvailableError.code
    assert choose(3, PREFERRED) == errors.InvalidRequestError.code
    assert led(driver) == [-1]
    assert driver.core.notes.take() == ()
    assert choose(3) == 0
    assert (led(driver), driver.partitions("t")[0].isr) == ([3], (3,))
    (note,) = driver.core.notes.take()
    assert note.is_warning
    assert note.text.startswith("unclean election of t-0: node 3 leads (chosen in the request); ISR")


def test_null_elects_all_partitions() -> None:
    """Partitions that need no election are left out of the response."""
    driver = a_cluster(3)
    bounce(driver, 1)
    driver.place("u", (2, 1))
    reply = driver.ask(ElectLeadersRequest(PREFERRED, None))
    assert [(r.topic, r.partition, r.error_code) for r in reply.results] == [
        ("t", 0, errors.PreferredLeaderNotAvailableError.code),
        ("t", 1, 0),
        ("t", 2, errors.PreferredLeaderNotAvailableError.code),
    ]
    assert reply.metadata_offset == driver.image.offset


@pytest.mark.parametrize("kind", [-1, 2])
def test_invalid_requests(kind) -> None:
    """An unknown election type; too many partitions; one named twice."""
    driver = a_cluster(**{"max.partitions.per.request": 2})
    assert driver.ask(ElectLeadersRequest(kind, None)).error_code == errors.InvalidRequestError.code
    many = (TopicPartitions("t", (0, 1, 2)),)
    assert driver.ask(ElectLeadersRequest(PREFERRED, many)).error_code == errors.InvalidRequestError.code
    bounce(driver, 0)
    assert driver.elect(PREFERRED, "t", 0, 0) == [0, errors.InvalidRequestError.code]


def test_balance_elects_preferred_leaders_when_it_is_due() -> None:
    """Node 1 leads 8 of the 10 partitions that prefer it: more than 10 % are elsewhere, so both return."""
    driver = a_cluster(10)
    bounce(driver, *range(10))
    assert driver.elect(PREFERRED, "t", *range(8)) == [0] * 8
    later(driver, BALANCE_MS - 10_000)
    assert led(driver).count(2) == 2, "not yet due"
    later(driver, 10_000)
    assert led(driver) == [1] * 10


def test_balance_tolerates_the_threshold() -> None:
    """Exactly 10 % elsewhere is no imbalance."""
    driver = a_cluster(10)
    bounce(driver, *range(10))
    driver.elect(PREFERRED, "t", *range(9))
    later(driver)
    assert led(driver).count(2) == 1


def test_balance_needs_in_sync_replicas() -> None:
    """Two of four are in sync on the preferred node; switched off, no leader moves."""
    for on in ("true", "false"):
        driver = a_cluster(4, **{"auto.leader.rebalance.enable": on})
        bounce(driver, 1, 3)
        later(driver)
        assert led(driver) == ([2, 1, 2, 1] if on == "true" else [2] * 4)


def test_balance_is_bounded_per_step(monkeypatch) -> None:
    """The rest comes a tick later, not an interval."""
    monkeypatch.setattr(leaders, "MAX_ELECTIONS", 3)
    driver = a_cluster(7)
    bounce(driver, *range(7))
    driver.now_ms += BALANCE_MS
    for expected in (3, 6, 7):
        for node_id in (1, 2):
            driver.heartbeat(node_id)
        driver.take(driver.core.decide_balance(driver.now_ms))
        assert led(driver).count(1) == expected
        assert driver.core.decide_balance(driver.now_ms) == (), "one step at a time"
        driver.now_ms += 75
    assert driver.core.decide_balance(driver.now_ms) == ()


def test_periodic_unclean_election() -> None:
    """The topic allows it only after it lost its leader: the next check elects, once the interval is over."""
    driver = a_cluster()
    assert driver.alter_partition("t", 0, (1,)).error_code == 0
    driver.fence(1)
    later(driver)
    assert led(driver) == [-1], "unclean elections are disabled"
    driver.configure("t", unclean_leader_election_enable="true")
    later(driver, BALANCE_MS - 1_000)
    assert led(driver) == [-1]
    later(driver, 1_000)
    assert led(driver) == [2]
