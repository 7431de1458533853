"""Sequential scripts of simulated clients, and the link to a coordinator.

A script is a generator that yields functions: each gets `resume` and calls it once, later, with a result. So
a script reads like the asyncio code of production, but runs on the events of the simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.clients.cluster.backoff import Backoff
from headrace.clients.group.coordinator_io import is_moved
from headrace.clients.producer.transactions import wait_after
from headrace.protocol.errors import KafkaError, error_from_code
from headrace.protocol.messages.groups import FindCoordinatorRequest
from headrace.protocol.messages.registry import FIND_COORDINATOR

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from headrace.protocol.messages.envelope import Api
    from sim_clients import SimClient

    Resume = Callable[[Any], None]
    Steps = Generator[Callable[[Resume], Any], Any, Any]


def run(steps: Steps, value: Any = None) -> None:
    """Run a script until it waits or ends."""
    try:
        wait = steps.send(value)
    except StopIteration:
        return
    wait(lambda found: run(steps, found))


def sleep(client: SimClient, delay_ms: int) -> Steps:
    """Wait in a script."""
    yield lambda resume: client.world.after(delay_ms, f"{client.name} goes on", lambda: resume(None))


class CoordinatorLink:
    """The coordinator of one key, as in `clients/group/coordinator_io.py`."""

    def __init__(self, client: SimClient, key_type: int, key: str) -> None:
        self._client, self._request = client, FindCoordinatorRequest(key_type, (key,))
        self._node_id: int | None = None

    def forget(self) -> None:
        """Look the coordinator up again for the next request."""
        self._node_id = None

    def ask(self, api: Api, body: Any, timeout_ms: int = 0) -> Steps:
        """Send a request to the known coordinator; returns the response, or a KafkaError."""
        client = self._client
        if self._node_id is None:
            node_id = client.random.choice(sorted(client.cluster.nodes))
            answer = yield from ask(client, node_id, FIND_COORDINATOR, self._request, 0)
            if isinstance(answer, KafkaError):
                return answer
            (found,) = answer.coordinators
            if found.error_code:
                return error_from_code(found.error_code, found.error_detail)
            self._node_id = found.node_id
        answer = yield from ask(client, self._node_id, api, body, timeout_ms)
        if isinstance(answer, KafkaError):
            self.forget()
        return answer

    def insist(
        self, api: Api, body: Any, error_of: Callable[[Any], KafkaError | None], is_over: Callable[[], bool]
    ) -> Steps:
        """Retry until a response without an error or an error that is not retriable; once `is_over`, return
        the last one."""
        client, failures = self._client, 0
        backoff = Backoff(20, 300, client.random)
        while True:
            answer = yield from self.ask(api, body)
            error = answer if isinstance(answer, KafkaError) else error_of(answer)
            if error is None:
                return answer
            if not error.retriable or is_over():
                return error
            if is_moved(error):
                self.forget()
            failures += 1
            yield from sleep(client, wait_after(error, failures, backoff))


def ask(client: SimClient, node_id: int, api: Api, body: Any, timeout_ms: int = 0) -> Steps:
    """Send a request to a node; returns the response, or a KafkaError."""
    answer = yield lambda resume: client.ask(
        node_id, api, body, (), lambda found, _frames: resume(found), timeout_ms
    )
    return answer


def error_of(answer: Any) -> KafkaError | None:
    """The error of a whole response, None if it has none."""
    return error_from_code(answer.error_code, answer.error_detail) if answer.error_code else None


def first_error(answer: Any) -> KafkaError | None:
    """An error of the partitions of a response, one that is not retriable if there is one."""
    codes = dict.fromkeys(result.error_code for result in answer.results if result.error_code)
    return min(map(error_from_code, codes), key=lambda error: error.retriable, default=None)
