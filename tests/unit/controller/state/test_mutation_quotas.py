"""controller_mutation_rate: enforced by partitions for the whole cluster."""

from typing import Any

import pytest
from controller_kit import Driver
from headrace.protocol.messages import control
from headrace.protocol.messages.quotas import AlterClientQuotasRequest, QuotaAlteration, QuotaChange

REFUSED = 89
RATE = 1.0  # 11 windows of a second: a burst of 11 partitions, then one each second


@pytest.fixture
def driver() -> Driver:
    """Three nodes; every client id has a quota of its own."""
    made = Driver()
    made.join(1, 2, 3)
    change = QuotaAlteration((("client-id", None),), (QuotaChange("controller_mutation_rate", RATE),))
    (answer,) = made.ask(AlterClientQuotasRequest((change,))).results
    assert answer.error_code == 0
    return made


def create(driver: Driver, *topics: tuple[str, int], user: str = "u", **facts: Any) -> Any:
    """Error codes by topic, and the throttle time."""
    specs = tuple(control.NewTopicSpec(name, count) for name, count in topics)
    answer = driver.ask(control.CreateTopicsRequest(specs, user=user, **facts))
    return [topic.error_code for topic in answer.topics], answer.throttle_ms


def test_changes_above_the_quota_are_refused(driver: Driver) -> None:
    """One change may exceed the remaining quota; refused ones are not made and not charged."""
    codes, wait_ms = create(driver, ("a", 8), ("b", 8), ("c", 8), client_id="x")
    assert (codes, wait_ms) == ([0, 0, REFUSED], 5_000)
    assert set(driver.image.topics) == {"a", "b"}
    grown = driver.ask(
        control.CreatePartitionsRequest((control.PartitionGrowth("a", 9),), user="u", client_id="x")
    )
    assert ([each.error_code for each in grown.results], grown.throttle_ms) == ([REFUSED], 5_000)
    gone = driver.ask(control.DeleteTopicsRequest(("a",), user="u", client_id="x"))
    assert ([each.error_code for each in gone.results], gone.throttle_ms) == ([REFUSED], 5_000)
    assert len(driver.partitions("a")) == 8


def test_old_clients_are_only_throttled(driver: Driver) -> None:
    """They are served, and charged."""
    create(driver, ("a", 16), client_id="x")
    codes, wait_ms = create(driver, ("b", 4), client_id="x", is_lenient=True)
    assert (codes, wait_ms) == ([0], 9_000)
    growth = (control.PartitionGrowth("b", 6),)
    grown = driver.ask(control.CreatePartitionsRequest(growth, user="u", client_id="x", is_lenient=True))
    assert grown.throttle_ms == 11_000
    gone = driver.ask(control.DeleteTopicsRequest(("b",), user="u", client_id="x", is_lenient=True))
    assert gone.throttle_ms == 17_000


def test_changes_that_are_not_made_are_not_charged(driver: Driver) -> None:
    """A validation, and a change that fails."""
    assert create(driver, ("a", 50), client_id="x", validate_only=True) == ([0], 0)
    codes, wait_ms = create(driver, ("../a", 50), client_id="x")
    assert (codes, wait_ms) == ([17], 0)
    growth = (control.PartitionGrowth("nothing", 90),)
    assert driver.ask(control.CreatePartitionsRequest(growth, user="u", client_id="x")).throttle_ms == 0


def test_a_quota_is_of_its_client_alone(driver: Driver) -> None:
    """Other users are not throttled; servers, which have no user, have no quota."""
    assert create(driver, ("a", 16), client_id="x")[1] == 5_000
    assert create(driver, ("b", 11), client_id="y") == ([0], 0)
    assert create(driver, ("c", 50), user="") == ([0], 0)


def test_the_quota_refills(driver: Driver) -> None:
    """A partition each second."""
    assert create(driver, ("a", 16), client_id="x")[1] == 5_000
    driver.now_ms += 4_000
    assert create(driver, ("b", 1), client_id="x") == ([REFUSED], 1_000)
    driver.now_ms += 1_000
    assert create(driver, ("b", 1), client_id="x") == ([0], 1_000)
