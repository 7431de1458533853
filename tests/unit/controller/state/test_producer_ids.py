"""Blocks of producer ids for registered nodes."""

from controller_kit import Driver
from headrace.controller.state.producer_ids import BLOCK_IDS
from headrace.protocol.errors import StaleBrokerEpochError, UnknownServerError
from headrace.protocol.messages.transactions import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from headrace.protocol.metadata.records import ProducerIdsRecord


def ask(driver: Driver, node_id: int, broker_epoch: int | None = None) -> AllocateProducerIdsResponse:
    known = driver.image.brokers[node_id].broker_epoch if broker_epoch is None else broker_epoch
    answer = driver.ask(AllocateProducerIdsRequest(node_id, known))
    assert isinstance(answer, AllocateProducerIdsResponse)
    return answer


def test_each_request_gets_the_next_block(driver: Driver) -> None:
    """For any node, repeated or not, and after a restart of the controller."""
    driver.join(1, 2)
    assert ask(driver, 1) == AllocateProducerIdsResponse(0, 0, BLOCK_IDS)
    assert ask(driver, 1).producer_id_start == 1000
    driver.restart()
    assert ask(driver, 2).producer_id_start == 2000
    assert driver.records[-1] == ProducerIdsRecord(2, driver.image.brokers[2].broker_epoch, 3000)


def test_a_process_that_was_replaced_gets_none(driver: Driver) -> None:
    driver.join(1)
    for node_id, epoch in ((1, -1), (1, 10**6), (9, 0)):
        assert ask(driver, node_id, epoch).error_code == StaleBrokerEpochError.code
    assert driver.image.next_producer_id == 0


def test_the_last_block_is_below_the_maximum(driver: Driver) -> None:
    driver.join(1)
    driver.take([ProducerIdsRecord(1, 0, 2**63 - 1 - BLOCK_IDS)])
    assert ask(driver, 1).error_code == 0
    assert ask(driver, 1).error_code == UnknownServerError.code
