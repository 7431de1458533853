"""Whether an attempt of a task may still write, asked of the coordinator of its driver's id.

A driver that ends a job first moves its id, and then fences every id of the job's tasks that there is; an
attempt takes its id first, and then asks. So either it hears that it is late, or the driver finds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ConcurrentTransactionsError, KafkaError, TransactionalIdNotFoundError
from ...protocol.messages.groups import TRANSACTION_KEY
from ...protocol.messages.registry import DESCRIBE_TRANSACTIONS
from ...protocol.messages.transactions import DescribeTransactionsRequest
from ..admin.asking_io import Asking, error_of
from ..admin.coordinating_io import Coordinating
from ..config import AdminConfig, resolve

if TYPE_CHECKING:
    from ..admin.coordinating_io import Coordinator
    from ..cluster.cluster_io import ClusterIo
    from .commits import Gate
    from .sink_options import WriteOptions

_ENDING = ("PrepareCommit", "PrepareAbort")
Producer = tuple[int, int]


def check_gate(io: ClusterIo, options: WriteOptions, gate: Gate | None) -> None:
    """Nothing if there is no gate. Coordinators answer with what is committed and with nothing older
    (docs/adr/0020). Errors: ProducerFencedError if it is shut; ApiTimeoutError, KafkaError."""
    if gate is None:
        return
    asking = Asking(io.hub, resolve(AdminConfig, dict(options.client), {}))

    async def ask(at: Coordinator) -> Producer | KafkaError:
        answer = await at.ask(DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest((at.key,)))
        (found,) = answer.transactions
        if found.state in _ENDING:  # which producer follows can be told when that has ended
            return ConcurrentTransactionsError(f"a transaction of {at.key} is being ended")
        return error_of(found) or (found.producer_id, found.producer_epoch)

    call = asking.call(None)
    found = io.call(Coordinating(asking, TRANSACTION_KEY).each([gate.transactional_id], ask, call))
    error = found.errors.get(gate.transactional_id)
    if error is not None and not isinstance(error, TransactionalIdNotFoundError):
        raise error
    gate.check(None if error is not None else found[gate.transactional_id])
