"""The ids of one node: none twice, none before there are some, and the next block in time."""

import pytest
from controller_kit import Driver
from headrace.coordinators.runtime.producer_ids import ProducerIds
from headrace.protocol.errors import CoordinatorLoadInProgressError, NetworkError, StaleBrokerEpochError
from headrace.protocol.messages.transactions import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from hypothesis import given
from hypothesis import strategies as st


def block(start: int, length: int = 10) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(0, start, length)


def with_first(start: int, length: int = 10) -> ProducerIds:
    ids = ProducerIds(1)
    with pytest.raises(CoordinatorLoadInProgressError):
        ids.next_id()
    assert ids.poll(0, 5) == AllocateProducerIdsRequest(1, 5)
    ids.answered(block(start, length), 0)
    return ids


def test_block_is_requested_with_the_first_id() -> None:
    """A node without such producers takes no block."""
    ids = ProducerIds(1)
    assert ids.poll(10**9, 5) is None
    assert ids.due_ms is None


def test_one_block_request_at_a_time() -> None:
    """However many ids are requested meanwhile."""
    ids = ProducerIds(1)
    for _ in range(3):
        with pytest.raises(CoordinatorLoadInProgressError):
            ids.next_id()
    assert ids.due_ms is not None
    assert ids.poll(0, 5) is not None
    assert ids.poll(0, 5) is None
    assert ids.due_ms is None


def test_next_block_is_requested_at_nine_tenths() -> None:
    """Ids continue in it without a pause."""
    ids = with_first(0)
    assert [ids.next_id() for _ in range(9)] == list(range(9))
    assert ids.poll(0, 5) is None
    assert ids.next_id() == 9
    assert ids.poll(0, 5) is not None
    ids.answered(block(50), 0)
    assert [ids.next_id() for _ in range(2)] == [50, 51]
    assert ids.poll(0, 5) is None


@pytest.mark.parametrize(
    "answer",
    [
        NetworkError("gone"),
        AllocateProducerIdsResponse(StaleBrokerEpochError.code),
        block(0),
        block(5),
        block(-1),
        block(10, 0),
        block(10, -3),
        block(2**63 - 2, 10),
    ],
)
def test_failed_or_invalid_block_is_requested_again(
    answer: NetworkError | AllocateProducerIdsResponse,
) -> None:
    """After a backoff; no id is taken from it."""
    ids = with_first(0)
    for _ in range(10):
        ids.next_id()
    assert ids.poll(100, 5) is not None
    ids.answered(answer, 100)
    assert ids.poll(149, 5) is None
    assert ids.due_ms == 150
    with pytest.raises(CoordinatorLoadInProgressError):
        ids.next_id()
    assert ids.poll(150, 6) == AllocateProducerIdsRequest(1, 6)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(0, 2), st.integers(1, 700)),
        st.tuples(st.just("restart node"), st.integers(0, 2)),
        st.tuples(st.just("restart controller")),
        st.tuples(st.just("lose answer"), st.integers(0, 2)),
    ),
    max_size=30,
)


@given(STEPS)
def test_ids_are_unique_in_the_cluster(steps: list[tuple[str, int, int]]) -> None:
    """Nodes and controllers restart, responses are lost."""
    driver = Driver()
    driver.join(1, 2, 3)
    nodes = [ProducerIds(node_id) for node_id in (1, 2, 3)]
    had: set[int] = set()
    now_ms = 0
    for kind, *facts in steps:
        now_ms += 100
        if kind == "restart controller":
            driver.restart()
            continue
        place = facts[0]
        if kind == "restart node":
            nodes[place] = ProducerIds(place + 1)
            continue
        for _ in range(facts[1] if kind == "take" else 1):
            try:
                new = nodes[place].next_id()
            except CoordinatorLoadInProgressError:
                pass
            else:
                assert new not in had
                had.add(new)
            request = nodes[place].poll(now_ms, driver.image.brokers[place + 1].broker_epoch)
            if request is not None:
                answer = driver.ask(request)
                nodes[place].answered(NetworkError("lost") if kind == "lose answer" else answer, now_ms)
