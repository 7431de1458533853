"""Hedged requests: the first response of several nodes."""

import asyncio
from typing import Any

import pytest
import virtual_loop
from headrace.clients.cluster.hedging_io import DELAYS_TO_RESPOND, MAX_IN_FLIGHT, Hedged
from headrace.clients.cluster.network import Address
from headrace.protocol.errors import (
    HeadraceError,
    InvalidRequestError,
    KafkaError,
    NetworkError,
    NoClusterError,
)

HEDGE_MS = 100
NODES = [Address(f"node{number}", 9000) for number in range(8)]


class Nodes:
    """Nodes that answer after their `delays_ms`; one without a delay refuses."""

    def __init__(self, delays_ms: dict[Address, int], others: list[Address] | HeadraceError) -> None:
        self.delays_ms, self.others = delays_ms, others
        self.asked: list[Address] = []
        self.under_way = self.most_under_way = self.searches = 0

    async def ask(self, address: Address) -> Address | KafkaError:
        self.asked.append(address)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if (delay_ms := self.delays_ms.get(address)) is None:
                return NetworkError(f"{address} refuses")
            await asyncio.sleep(delay_ms / 1000)
            return address
        finally:
            self.under_way -= 1

    async def more(self) -> list[Address]:
        self.searches += 1
        if isinstance(self.others, HeadraceError):
            raise self.others
        return self.others


def first(
    known: list[Address], delays_ms: dict[Address, int], others: list[Address] | HeadraceError | None = None
) -> tuple[Any, int, Nodes]:
    """(outcome, ms, the nodes)."""
    nodes = Nodes(delays_ms, [] if others is None else others)

    async def scenario() -> tuple[Any, int]:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        late: list[Address] = []
        hedged = Hedged(known, nodes.ask, hedge_ms=HEDGE_MS, more=nodes.more, hedged=late.extend)
        outcome = await hedged.first()
        return outcome, round((loop.time() - began_s) * 1000)

    outcome, took_ms = virtual_loop.run(scenario())
    assert not nodes.under_way
    return outcome, took_ms, nodes


def test_prompt_response_needs_one_node() -> None:
    """No further node gets the request, and `more` is not called."""
    outcome, _, nodes = first(NODES[:3], dict.fromkeys(NODES, 10), NODES[3:])
    assert (outcome, nodes.asked, nodes.searches) == (NODES[0], NODES[:1], 0)


def test_late_node_is_hedged_to_further_addresses() -> None:
    """The only known node hangs."""
    outcome, took_ms, nodes = first(NODES[:1], {NODES[0]: 10_000, NODES[1]: 10}, [NODES[0], NODES[1]])
    assert (outcome, took_ms) == (NODES[1], HEDGE_MS + 10)
    assert nodes.asked == NODES[:2]


def test_further_addresses_alternate_with_known_ones() -> None:
    """All known nodes hang: the further ones get the request before all of these have timed out."""
    known, other = NODES[:6], NODES[6]
    outcome, took_ms, _ = first(known, {**dict.fromkeys(known, 10_000), other: 10}, [other])
    assert outcome == other
    assert took_ms <= 2 * HEDGE_MS + 10


def test_oldest_request_is_cancelled_for_further_nodes() -> None:
    """More nodes hang than MAX_IN_FLIGHT; the bound holds."""
    known = NODES[:6]
    outcome, took_ms, nodes = first(known, {**dict.fromkeys(known, 100_000), known[5]: 10})
    assert outcome == known[5]
    assert nodes.most_under_way == MAX_IN_FLIGHT
    assert took_ms <= (DELAYS_TO_RESPOND + len(known)) * HEDGE_MS


def test_slow_cluster_responds() -> None:
    """Every node is slower than the limit for the oldest request: the last requests keep their timeout."""
    outcome, _, _ = first(NODES, dict.fromkeys(NODES, 20 * HEDGE_MS))
    assert outcome in NODES


@pytest.mark.parametrize("others", [[], NODES[2:4], NoClusterError("no address")])
def test_last_error_when_no_node_responds(others: list[Address] | HeadraceError) -> None:
    """Known and further nodes reject the request; an error of `more` has precedence."""
    outcome, took_ms, nodes = first(NODES[:2], {}, others)
    assert outcome is others if isinstance(others, HeadraceError) else isinstance(outcome, NetworkError)
    assert set(nodes.asked) == set(NODES[:4] if others == NODES[2:4] else NODES[:2])
    assert (took_ms, nodes.searches) == (0, 1)


def test_failed_search_is_ignored_when_a_known_node_responds() -> None:
    """The second known node responds."""
    outcome, _, _ = first(NODES[:2], {NODES[1]: 10}, NoClusterError("no address"))
    assert outcome == NODES[1]


async def test_raised_error_ends_the_call() -> None:
    """An error that every node would give."""

    async def refuse(_address: Address) -> KafkaError:
        raise InvalidRequestError("no")

    nodes = Nodes({}, [])
    hedged = Hedged(NODES, refuse, hedge_ms=HEDGE_MS, more=nodes.more, hedged=lambda late: None)
    with pytest.raises(InvalidRequestError):
        await hedged.first()
