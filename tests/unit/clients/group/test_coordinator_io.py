"""The coordinator is found once, and again after a failure, until the deadline of the request."""

import asyncio
from typing import Any

import pytest
from fake_cluster import Fault
from headrace.clients.cluster.backoff import Backoff
from headrace.clients.group.coordinator_io import CoordinatorLink
from headrace.protocol import errors
from headrace.protocol.messages.groups import DescribeGroupsRequest
from headrace.protocol.messages.registry import DESCRIBE_GROUPS

REQUEST = DescribeGroupsRequest(("g",))


def link_of(cluster: Any) -> CoordinatorLink:
    hub = cluster.io.hub
    return CoordinatorLink(hub, "g", Backoff(50, 50, hub.random), request_timeout_ms=1_000)


async def ask(link: CoordinatorLink, cluster: Any, timeout_ms: int = 5_000) -> Any:
    return await link.ask(DESCRIBE_GROUPS, REQUEST, deadline_ms=cluster.io.hub.now_ms() + timeout_ms)


async def test_concurrent_requests_find_the_coordinator_once(fake: Any, cluster: Any) -> None:
    """Ten at the same time, and a later one; again after `forget`."""
    link = link_of(cluster)
    await asyncio.gather(*(ask(link, cluster) for _ in range(10)))
    await ask(link, cluster)
    assert len(fake.requests("FindCoordinator")) == 1
    link.forget()
    await ask(link, cluster)
    assert len(fake.requests("FindCoordinator")) == 2


@pytest.mark.fake_cluster(nodes=2)
async def test_failed_node_is_found_again_by_the_next_request(fake: Any, cluster: Any) -> None:
    """The caller gets the error; its next request goes to the new coordinator."""
    link = link_of(cluster)
    await ask(link, cluster)
    fake.stop_node(0)
    fake.move_coordinator(1)
    with pytest.raises(errors.NetworkError):
        await ask(link, cluster)
    assert (await ask(link, cluster)).groups[0].group_id == "g"


async def test_search_continues_until_the_deadline(fake: Any, cluster: Any) -> None:
    """The internal topic may not exist yet; an error that is not retriable is raised at once."""
    link = link_of(cluster)
    fake.fail_next("FindCoordinator", Fault(error=errors.CoordinatorNotAvailableError()), 3)
    await ask(link, cluster)
    link.forget()
    fake.fail_next("FindCoordinator", Fault(error=errors.CoordinatorNotAvailableError()), 1000)
    with pytest.raises(errors.ApiTimeoutError):
        await ask(link, cluster, 500)
    fake.rules.clear()
    fake.fail_next("FindCoordinator", Fault(error=errors.InvalidGroupIdError()), 1)
    with pytest.raises(errors.InvalidGroupIdError):
        await ask(link, cluster)
