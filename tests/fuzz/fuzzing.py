"""Fuzzers against a running cluster, over both of its planes.

The law: whatever comes, no process dies, nothing hangs, no memory grows without bound, every answer can be
parsed, nothing of a translation breaks, what was accepted can be read, and a valid request afterwards is
answered rightly. Case `number` of a kind and seed is always the same bytes.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import wild
from headrace import LocalCluster
from headrace.protocol import errors
from headrace.protocol.messages import control, data, quotas, registry
from headrace.protocol.transport.dealer_io import Connection
from headrace.services.kafka_listener.served import SERVED
from hostile_rig import MIB, TIMEOUT_S, Probe, attacked_cluster
from kafka_listener_rig import WireClient
from kafka_wire import answer_of, example_request, framed, request_frame, request_head
from node_rig import until, values_of

API_VERSIONS, LAST = 18, -8
LOT = 160  # cases between two looks whether all is well
TOGETHER = 16
# How long a case waits for what may never be answered: a fetch, a join. Nothing is concluded from it.
PATIENCE_S = 0.25
# kio cannot read the time -1, by which these say that no transaction is under way, or that there is no token.
UNREADABLE = {38, 39, 40, 65}
MAX_ANSWER_BYTES = 64 * MIB


def fuzzed_cluster() -> AbstractContextManager[LocalCluster]:
    """Two nodes, so that one has to ask the other; joins are over soon."""
    return attacked_cluster(2, group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1)


class Fuzzer:
    """One cluster under attack."""

    def __init__(self, cluster: LocalCluster, probe: Probe) -> None:
        self._cluster, self._probe = cluster, probe
        self._topic_id = b""
        self.kinds: dict[str, Callable[[random.Random, int], Awaitable[None]]] = {
            "valid": self._valid,
            "frames": self._frames,
            "requests": self._request,
            "own": self._own_request,
            "batches": self._batch,
        }

    async def prepare(self) -> None:
        """The topic that most cases are about, a new one; nothing of what others were by luck."""
        answer = await self._probe.ask(registry.METADATA, data.MetadataRequest())
        names = [topic.name for topic in answer.body.topics]
        gone = tuple(name for name in names if not name.startswith(("probe-", "__")))
        await self._probe.ask(registry.DELETE_TOPICS, control.DeleteTopicsRequest(gone))
        await self._probe.ask(
            registry.UPDATE_FEATURES,
            quotas.UpdateFeaturesRequest((quotas.FeatureUpdate("group.version", 1),)),
        )
        found = (
            await self._probe.ask(registry.DESCRIBE_CLIENT_QUOTAS, quotas.DescribeClientQuotasRequest())
        ).body
        freed = tuple(
            quotas.QuotaAlteration(each.entity, tuple(quotas.QuotaChange(key) for key in each.values))
            for each in found.entries
        )
        await self._probe.ask(registry.ALTER_CLIENT_QUOTAS, quotas.AlterClientQuotasRequest(freed))
        spec = self._probe.spec(wild.TOPIC)
        made = await self._probe.ask(registry.CREATE_TOPICS, control.CreateTopicsRequest((spec,)))
        self._topic_id = made.body.topics[0].topic_id
        await self._probe.check()

    async def lot(self, kind: str, seed: int, first: int, count: int = LOT) -> None:
        """Cases `first` and those behind it, then a look at everything."""
        for start in range(first, first + count, TOGETHER):
            cases = range(start, min(start + TOGETHER, first + count))
            async with asyncio.timeout(TIMEOUT_S):
                await asyncio.gather(
                    *(self.kinds[kind](random.Random(f"{kind}/{seed}/{number}"), number) for number in cases)
                )
        await self._probe.check()
        assert not self._status_sum("broken"), "a translation broke: see the log"
        async with asyncio.timeout(TIMEOUT_S):
            await until(lambda: not self._status_sum("held_request_bytes"))
        await self._read_all()
        await self.prepare()

    def _status_sum(self, name: str) -> int:
        """By the listeners of all nodes."""
        return sum(node["kafka"][name] for node in self._cluster.status()["nodes"])

    # --- the kinds ---------------------------------------------------------------------------------------

    async def _valid(self, dice: random.Random, number: int) -> None:
        """Each version of each api in turn, as it should be: an answer comes, or the connection ends. There
        is a question behind it, since not every one has an answer."""
        frame = wild.good_request(dice, self._topic_id, wild.VERSIONS[number % len(wild.VERSIONS)])
        client = await WireClient.to(dice.choice(self._probe.kafka_ports))
        try:
            client.write(framed(frame) + framed(request_head(API_VERSIONS, 0, LAST)))
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while int.from_bytes((answer := await client.frame())[:4], "big", signed=True) != LAST:
                    parse(frame, answer)
        finally:
            client.close()

    async def _request(self, dice: random.Random, number: int) -> None:
        which = wild.VERSIONS[number % len(wild.VERSIONS)]
        frame = wild.bad_request(dice, self._topic_id, which)
        await self._converse(dice, [frame], [framed(frame)])

    async def _frames(self, dice: random.Random, _number: int) -> None:
        frames = [wild.request(dice, self._topic_id) for _ in range(dice.choice((1, 2, 5)))]
        ending = dice.choice((None, None, "fin", "rst"))
        await self._converse(dice, frames, wild.stream(dice, frames), ending, lies=True)

    async def _converse(
        self,
        dice: random.Random,
        frames: list[bytes],
        pieces: list[bytes],
        ending: str | None = None,
        *,
        lies: bool = False,
    ) -> None:
        """Send, and parse all responses. With wrong lengths, responses cannot be matched to requests."""
        client = await WireClient.to(dice.choice(self._probe.kafka_ports))
        try:
            for piece in pieces:
                client.write(piece)
                await client.writer.drain()
                await asyncio.sleep(0)
            if ending == "rst":
                return
            if ending == "fin":
                client.writer.write_eof()
            async with asyncio.timeout(PATIENCE_S):
                expected = iter(frames)
                while lies or (frame := next(expected, None)) is not None:
                    answer = await client.frame()
                    assert len(answer) < MAX_ANSWER_BYTES
                    if not lies:
                        parse(frame, answer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # it waits, or the connection was ended (before its end was closed, too): all are fine
        finally:
            client.close()

    async def _own_request(self, dice: random.Random, _number: int) -> None:
        api, body = wild.own_request(dice, self._topic_id)
        frames = [wild.batch(dice)] if api is registry.PRODUCE else []
        await self._ask_own(api, body, frames)

    async def _batch(self, dice: random.Random, _number: int) -> None:
        """Over one plane or the other; what is accepted is read with the rest of the lot."""
        bad = wild.bad_batch(dice)
        if dice.random() < 0.4:
            request = data.ProduceRequest(1, 1_000, (data.ProducePartition(self._topic_id, 0),))
            await self._ask_own(registry.PRODUCE, request, [bad])
            return
        version = dice.randrange(SERVED[0].low, SERVED[0].high + 1)
        body = example_request(
            0, version, name=wild.TOPIC, topic_id=wild.id_of(self._topic_id), index=0, acks=1,
            records=bad, transactional_id=None,
        )  # fmt: skip
        frame = request_frame(0, version, body)
        await self._converse(dice, [frame], [framed(frame)])

    async def _ask_own(self, api: Any, body: Any, frames: Sequence[bytes]) -> None:
        connection = await Connection.open(*self._probe.node, client_id="fuzz", timeout_s=TIMEOUT_S)
        try:
            sent = connection.send(api, body, frames)
            await asyncio.wait([sent], timeout=PATIENCE_S)
            if sent.done():
                failure = sent.exception()
                assert failure is None or isinstance(failure, errors.KafkaError), failure
            else:
                sent.add_done_callback(lambda over: over.cancelled() or over.exception())
        finally:
            connection.close()

    # --- after each lot ----------------------------------------------------------------------------------

    async def _read_all(self) -> None:
        """What was accepted."""
        offset = 0
        while True:
            wanted = data.FetchPartition(self._topic_id, 0, offset, MIB)
            request = data.FetchRequest(0, 1, MIB, 0, (wanted,))
            answer = await self._probe.ask(registry.FETCH, request)
            found = values_of(answer.frames)
            if not found:
                return
            offset = found[-1][0] + 1


def parse(frame: bytes, answer: bytes) -> None:
    """Fails unless it is a whole answer to that request."""
    api_key, version = (int.from_bytes(frame[at : at + 2], "big", signed=True) for at in (0, 2))
    assert answer[:4] == frame[4:8], "the answer of another request"
    if api_key in UNREADABLE:
        return
    api = SERVED[api_key]
    answer_of(api_key, version if api.low <= version <= api.high else 0, answer)
