"""Checks whether an attempt of a task may still write, with the coordinators of its gates' ids.

A driver that ends a job first increments the epoch of its id, and then fences every id of the job's tasks; an
attempt initializes its id first, and then checks the gate. So either the attempt finds the gate closed, or
the driver finds its id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ConcurrentTransactionsError, KafkaError, TransactionalIdNotFoundError
from ...protocol.messages.groups import TRANSACTION_KEY
from ...protocol.messages.registry import DESCRIBE_TRANSACTIONS
from ...protocol.messages.transactions import DescribeTransactionsRequest
from ..admin.coordinator_requester_io import CoordinatorRequester
from ..admin.requester_io import AdminRequester, error_of
from ..config import AdminConfig, resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..admin.coordinator_requester_io import Coordinator
    from ..cluster.cluster_io import ClusterIo
    from .commits import Gate
    from .sink_options import WriteOptions

_ENDING = ("PrepareCommit", "PrepareAbort")
Producer = tuple[int, int]


def check_gates(io: ClusterIo, options: WriteOptions, gates: Sequence[Gate]) -> None:
    """Returns if all gates are open. Coordinators answer from committed, current state only (docs/adr/0020).
    Errors: ProducerFencedError if one is closed; ApiTimeoutError, KafkaError."""
    if not gates:
        return
    requester = AdminRequester(io.hub, resolve(AdminConfig, dict(options.client), {}))

    async def ask(at: Coordinator) -> Producer | KafkaError:
        answer = await at.ask(DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest((at.key,)))
        (found,) = answer.transactions
        if found.state in _ENDING:  # the next producer is known after its end
            return ConcurrentTransactionsError(f"a transaction of {at.key} is still ending: retry")
        return error_of(found) or (found.producer_id, found.producer_epoch)

    call = requester.call(None)
    names = [gate.transactional_id for gate in gates]
    found = io.call(CoordinatorRequester(requester, TRANSACTION_KEY).each(names, ask, call))
    for gate in gates:
        error = found.errors.get(gate.transactional_id)
        if error is not None and not isinstance(error, TransactionalIdNotFoundError):
            raise error
        gate.check(None if error is not None else found[gate.transactional_id])
