"""How a storage node finds its controller: asked of the actor, remembered for when Ray does not answer."""

import threading

import pytest
from headrace.protocol.errors import NetworkError
from headrace.runtime.named_actor import ActorFinder
from headrace.storage_node.node_actor import node_name
from ray.exceptions import ActorUnavailableError

HERE, THERE = ("127.0.0.1", 9093), ("127.0.0.1", 9999)
GONE = ActorUnavailableError("the controller restarts", None)


class Answers:
    """Gives or raises one answer after the other; blocks while `gate` is closed."""

    def __init__(self, *answers: tuple[str, int] | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self) -> tuple[str, int]:
        self.asked += 1
        assert self.gate.wait(10.0)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_actor_is_looked_up_each_time() -> None:
    """A controller that moved is found at its new address."""
    answers = Answers(HERE, THERE)

    finder = ActorFinder(answers)
    assert await finder() == HERE
    assert await finder() == THERE


@pytest.mark.parametrize("trouble", [GONE, NetworkError("starting"), ValueError("no actor of this name")])
async def test_last_known_address_is_used_without_an_answer(trouble: Exception) -> None:
    """Ports are kept across restarts."""
    answers = Answers(HERE, trouble)

    finder = ActorFinder(answers)
    assert await finder() == HERE
    assert await finder() == HERE


async def test_unknown_controller_is_a_retriable_error() -> None:
    with pytest.raises(NetworkError):
        await ActorFinder(Answers(GONE))()
    assert NetworkError.retriable


async def test_hanging_lookup_blocks_nothing() -> None:
    """While Ray's GCS is down the last address is returned, and no call queues behind the lookup."""
    answers = Answers(HERE, THERE, HERE)

    finder = ActorFinder(answers, timeout_s=0.01)
    assert await finder() == HERE
    answers.gate.clear()
    assert await finder() == HERE
    assert await finder() == HERE
    assert answers.asked == 2, "the third call waits for the second's question"
    answers.gate.set()
    finder._timeout_s = 10.0
    assert await finder() == THERE


def test_actor_names_count_from_one() -> None:
    """`up` adopts actors by name."""
    assert node_name(1) == "node-1"
