"""Exact limits of the controller's rules: one more, one less, one too new."""

from controller_kit import Driver
from headrace.protocol.errors import InvalidPartitionsError, InvalidRequestError, StaleBrokerEpochError
from headrace.protocol.messages.control import CreatePartitionsRequest, PartitionGrowth, ReplicaAssignment


def test_a_newer_broker_epoch_is_refused_like_an_old_one(driver: Driver) -> None:
    """A node with a registration that this log does not have belongs to another history."""
    driver.join(1)
    epoch = driver.image.brokers[1].broker_epoch
    for wrong in (epoch - 1, epoch + 1):
        assert driver.heartbeat(1, broker_epoch=wrong).error_code == StaleBrokerEpochError.code
    assert driver.heartbeat(1, broker_epoch=epoch).error_code == 0


def test_the_next_generated_id_cannot_be_requested() -> None:
    """Ids above the reserved ones belong to the processes for which they were generated."""
    driver = Driver(**{"reserved.broker.max.id": 10})
    assert driver.register(10).error_code == 0
    assert driver.register(11, process=50).error_code == InvalidRequestError.code
    generated = driver.register(-1, process=51)
    assert (generated.error_code, generated.node_id) == (0, 11)
    assert driver.register(12, process=52).error_code == InvalidRequestError.code


def test_explicit_assignments_count_against_the_limit() -> None:
    """Two partitions may be created: an assignment of three is refused, one of two is not."""
    driver = Driver(**{"max.partitions": 2})
    driver.join(1)
    three = tuple(ReplicaAssignment(number, (1,)) for number in range(3))
    assert driver.create("a", num_partitions=-1, replication_factor=-1, assignments=three).error_code == (
        InvalidPartitionsError.code
    )
    assert driver.create("a", num_partitions=-1, replication_factor=-1, assignments=three[:2]).error_code == 0


def test_the_limit_is_shared_within_one_request() -> None:
    """Four partitions in all, two exist: of two topics with two more each, the first gets them."""
    driver = Driver(**{"max.partitions": 4})
    driver.join(1)
    for name in ("a", "b"):
        assert driver.create(name, num_partitions=1).error_code == 0
    growths = (PartitionGrowth("a", 3), PartitionGrowth("b", 3))
    results = driver.ask(CreatePartitionsRequest(growths)).results
    assert [result.error_code for result in results] == [0, InvalidPartitionsError.code]
    assert len(driver.partitions("b")) == 1
