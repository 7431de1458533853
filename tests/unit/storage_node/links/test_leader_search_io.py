"""The search for the active controller, with scripted controllers over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fake_controller import FakeController
from headrace.protocol.errors import NetworkError, NotControllerError, NotLeaderOrFollowerError
from headrace.protocol.messages.quorum import DescribeQuorumResponse, QuorumEndpoint, QuorumReplica
from headrace.storage_node.links.leader_search_io import ElectingError, LeaderSearch, fixed_locator

NO_LEADER = DescribeQuorumResponse(NotLeaderOrFollowerError.code)
TIMEOUT_S = 60.0


@asynccontextmanager
async def controllers(count: int) -> AsyncIterator[list[FakeController]]:
    """The last controller leads, and all others know no leader."""
    found = [FakeController() for _ in range(count)]
    for each in found:
        each.start()
        each.quorum = NO_LEADER
    found[-1].quorum = DescribeQuorumResponse(0, leader_id=count)
    try:
        yield found
    finally:
        for each in found:
            each.close()


def points_to(controller: FakeController) -> DescribeQuorumResponse:
    """A follower's response that names the leader."""
    endpoint = QuorumEndpoint("127.0.0.1", controller.router.port)
    return DescribeQuorumResponse(NotLeaderOrFollowerError.code, leader_id=9, endpoint=endpoint)


async def test_the_leader_is_found_among_all_addresses() -> None:
    """In any order of the addresses."""
    async with controllers(3) as three:
        search = LeaderSearch(tuple(each.locate for each in three), TIMEOUT_S)
        connection = await search.find("test")
        assert connection.hello.node_id == 9_000
        connection.close()


async def test_a_follower_names_the_leader() -> None:
    """Only the follower's address was known."""
    async with controllers(2) as (follower, leader):
        follower.quorum = points_to(leader)
        connection = await LeaderSearch(follower.locate, TIMEOUT_S, grace_s=TIMEOUT_S).find("test")
        assert leader.router.connections == 1
        connection.close()


async def test_addresses_named_by_a_leader_are_remembered() -> None:
    """The configured address is gone, and the quorum is found all the same."""
    async with controllers(2) as (first, second):
        voters = tuple(
            QuorumReplica(number, bytes(16), endpoint=QuorumEndpoint("127.0.0.1", each.router.port))
            for number, each in enumerate((first, second), 1)
        )
        first.quorum = DescribeQuorumResponse(0, leader_id=1, voters=voters)
        second.quorum = NO_LEADER
        search = LeaderSearch(first.locate, TIMEOUT_S)
        (await search.find("test")).close()
        first.close()
        second.quorum = DescribeQuorumResponse(0, leader_id=2)
        connection = await search.find("test")
        assert second.router.connections == 1
        connection.close()


async def test_an_election_differs_from_unreachable_controllers() -> None:
    """One controller knows no leader while another is silent: ElectingError, soon. No controller answers:
    NotControllerError."""
    async with controllers(2) as (undecided, silent):
        silent.is_silent = True
        search = LeaderSearch((undecided.locate, silent.locate), 60.0)
        with pytest.raises(ElectingError):
            async with asyncio.timeout(TIMEOUT_S):
                await search.find("test")
        port = undecided.router.port
        undecided.close()
        with pytest.raises(NotControllerError) as caught:
            await LeaderSearch(fixed_locator("127.0.0.1", port), TIMEOUT_S).find("test")
        assert not isinstance(caught.value, ElectingError)


async def test_a_failing_locator_does_not_delay_the_search() -> None:
    """It raises, has no port, or never returns: the other addresses are asked."""

    async def unknown() -> tuple[str, int]:
        raise NetworkError("not known yet")

    async def portless() -> tuple[str, int]:
        return "127.0.0.1", 0

    async def never() -> tuple[str, int]:
        await asyncio.Event().wait()
        raise AssertionError

    async with controllers(1) as (leader,):
        search = LeaderSearch((unknown, portless, never, leader.locate), TIMEOUT_S)
        connection = await search.find("test")
        assert leader.router.connections == 1
        connection.close()
        with pytest.raises(NotControllerError, match="not known yet"):
            await LeaderSearch((unknown, portless), TIMEOUT_S).find("test")


async def test_two_leaders_give_one_connection() -> None:
    """An old leader may not know its successor; the unused connection is closed."""
    async with controllers(2) as pair:
        pair[0].quorum = pair[1].quorum
        connection = await LeaderSearch(tuple(each.locate for each in pair), TIMEOUT_S).find("test")
        assert not connection.is_closed
        async with asyncio.timeout(TIMEOUT_S):
            for _ in range(1_000):
                if sum(each.router.connections for each in pair) == 1:
                    break
                await asyncio.sleep(0.005)
        assert sum(each.router.connections for each in pair) == 1
        connection.close()
