"""The quorum part of the admin client: the controllers, and changes of the voters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import DuplicateVoterError, KafkaError, VoterNotFoundError, error_from_code
from ...protocol.messages import registry as apis
from ...protocol.messages.quorum import AddRaftVoterRequest, DescribeQuorumRequest, RemoveRaftVoterRequest
from ..cluster.network import Address
from .admin_types import QuorumDescription, QuorumReplicaInfo
from .requester_io import error_of

if TYPE_CHECKING:
    from ...protocol.messages.quorum import DescribeQuorumResponse, QuorumReplica
    from .requester_io import AdminRequester, Call

ANY_CLUSTER = ""


class QuorumEngine:
    """Runs on the loop of the client. Timeouts are in seconds; None takes default.api.timeout.ms.

    One change of the voters is decided at a time: one that finds another under way is asked for again until
    the time is over.
    """

    def __init__(self, requester: AdminRequester) -> None:
        self._requester = requester

    async def describe(self, *, timeout: float | None) -> QuorumDescription:
        """The controller quorum as its leader sees it."""
        return await self._described(self._requester.call(timeout))

    async def add_voter(
        self, voter_id: int, directory_id: bytes, address: Address, *, timeout: float | None
    ) -> None:
        """Errors: of the quorum. A retry that finds this very voter has succeeded."""
        call = self._requester.call(timeout)
        request = AddRaftVoterRequest(ANY_CLUSTER, voter_id, directory_id, *address)

        async def ask() -> KafkaError | None:
            error = error_of(await self._requester.ask(apis.ADD_RAFT_VOTER, request, call))
            if call.may_have_run and isinstance(error, DuplicateVoterError):
                voters = (await self._described(call)).voters
                keys = {(each.replica_id, each.directory_id) for each in voters}
                return None if (voter_id, directory_id) in keys else error
            return error

        await self._requester.one(f"voter {voter_id}", ask, call)

    async def remove_voter(self, voter_id: int, directory_id: bytes, *, timeout: float | None) -> None:
        """Errors: of the quorum. A retry that finds no such voter has succeeded."""
        call = self._requester.call(timeout)
        request = RemoveRaftVoterRequest(ANY_CLUSTER, voter_id, directory_id)

        async def ask() -> KafkaError | None:
            error = error_of(await self._requester.ask(apis.REMOVE_RAFT_VOTER, request, call))
            return None if call.may_have_run and isinstance(error, VoterNotFoundError) else error

        await self._requester.one(f"voter {voter_id}", ask, call)

    async def _described(self, call: Call) -> QuorumDescription:
        async def ask() -> QuorumDescription | KafkaError:
            response = await self._requester.ask(apis.DESCRIBE_QUORUM, DescribeQuorumRequest(), call)
            return error_from_code(response.error_code) if response.error_code else _quorum(response)

        return await self._requester.one("the quorum", ask, call)


def _quorum(response: DescribeQuorumResponse) -> QuorumDescription:
    replicas = (*response.voters, *response.observers)
    end_offset = max((each.log_end_offset for each in replicas), default=-1)

    def shown(each: QuorumReplica) -> QuorumReplicaInfo:
        return QuorumReplicaInfo(
            each.replica_id,
            each.directory_id,
            each.log_end_offset,
            -1 if each.log_end_offset < 0 else end_offset - each.log_end_offset,
            each.last_fetch_ago_ms,
            each.last_caught_up_ago_ms,
            Address(each.endpoint.host, each.endpoint.port),
        )

    return QuorumDescription(
        response.leader_id,
        response.leader_epoch,
        response.high_watermark,
        tuple(shown(each) for each in response.voters),
        tuple(shown(each) for each in response.observers),
    )
