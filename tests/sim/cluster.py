"""A whole cluster in simulation: the production cores of controllers, storage nodes and clients.

A run has three phases. Start: nodes register, topics are created, clients begin. Faults: within the budget of
faults.py. Recovery: the faults heal; within bounded virtual time the cluster must acknowledge new records,
all replicas must be in sync and equal byte for byte, and all consumers must be at the log end offsets. The
laws of replication (cluster_laws.py), of commits in time (commit_laws.py) and of the quorum (quorum_laws.py)
are checked after every event, the history at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import access
import compacting
import quorum_laws
import sim_balancer
import sim_streams
from cluster_laws import Laws, registration_of
from cluster_losses import UNCLEAN, check_unclean
from commit_laws import CommitLaw
from compacting import KeyedProducer, Mirror
from erasing import NO_RETENTION, Eraser, lasting_topics, retain
from faults import BLACKOUT, Faults, draw_kinds
from headrace.clients.consumer.requests import FetchLimits
from headrace.controller.config import ControllerConfig
from headrace.controller.quorum.voters import Endpoint, ReplicaKey, voter
from headrace.protocol.errors import KafkaError
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import CreateTopicsRequest, NewTopicSpec, ReplicaAssignment
from headrace.protocol.records.control import VoterSet
from headrace.storage_node.configs.node_config import NodeConfig
from history import History
from network import FAIR, Network, Weather
from quorum import METADATA_DIR
from scenarios import SCENARIOS
from sim_clients import SimConsumer, SimProducer
from sim_controller import SimControllerNode
from sim_node import DIRS, SimNode
from sim_transactions import COPY, SOURCE
from sim_transport import Transport
from txn_laws import Groups
from world import World, uncollected

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Sequence

WARM_UP_MS = 20_000
LAST_ANSWER_MS = 6_000  # more than the longest time until a response
ARRIVAL_MS = 500  # the longest delay of a request in the healed network
# The final consumer reads all logs with few requests.
FINAL_LIMITS = FetchLimits(max_wait_ms=200, min_bytes=1, max_bytes=1_000_000, max_partition_bytes=100_000)


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run; `draw` makes them from a seed."""

    controllers: int = 1
    nodes: int = 3
    partitions: int = 2
    replication: int = 3
    min_isr: int = 2
    durability: str = "async"
    fault_ms: int = 8_000
    fault_gap_ms: int = 700  # mean
    weather: Weather = FAIR
    faults: tuple[str, ...] = ()
    send_gap_ms: int = 40
    idempotent: bool = False  # whether p0 is idempotent; p1 always is
    unreliable_producer: bool = True  # an additional producer with acks=1
    unclean: bool = False  # a second topic, with unclean.leader.election.enable
    readers: bool = True  # consumers run during the faults, not only at the end
    tail_cache_bytes: int = 1 << 20  # records older than the tail cache are read from files
    replica_fetch_bytes: int = 1 << 20
    fetchers: int = 1
    longest_ms: int = 4_000  # the longest pause of a node, and the longest silence of the producers
    patience_ms: int = 60_000  # the time limit of each condition of the recovery
    compression: str = "producer"  # compression.type of all topics
    compacts: bool = False  # an additional topic, which is compacted
    groups: str = ""  # groups and transactions: classic, modern, mixed or streams; see txn_laws.py
    static_threads: bool = False  # of streams groups: readers are static members
    # Fewer idle events: clients refresh metadata at once for topics that are not created yet, retries and the
    # fetches of clients and followers wait longer, and the recovery is shorter. Off in planted bugs, whose
    # seeds would change.
    is_brisk: bool = False
    drivers: bool = False  # some transactions are prepared, and committed or aborted later by a driver
    session_ms: int = 1_500  # session timeout of group members
    acls: bool = False  # rules and users, see access.py
    balances: bool = False  # an operator balances the cluster and empties nodes, see sim_balancer.py
    scenario: str = ""  # a script of scenarios.py instead of random faults

    @classmethod
    def draw(cls, random: random.Random) -> Plan:
        """A random plan. Each seed has few kinds of faults, so that common ones do not hide rare
        ones."""
        replication = random.choice((3, 3, 3, 3, 2, 1))
        min_isr = 1 if replication == 1 or random.random() < 0.15 else 2
        is_ordered = random.random() < 0.7
        plan = cls(
            controllers=random.choice((1, 1, 3)),
            nodes=random.choice((3, 3, 4)),
            partitions=random.choice((1, 2, 3)),
            replication=replication,
            min_isr=min_isr,
            durability="fsync" if replication == 1 or random.random() < 0.4 else "async",
            fault_gap_ms=random.choice((200, 500, 1000)),
            weather=Weather(
                min_delay_ms=random.choice((0, 1, 10)),
                mean_delay_ms=random.choice((1, 5, 20)),
                loss=random.choice((0.0, 0.0, 0.01, 0.05)),
                duplicate=0.0 if is_ordered else random.choice((0.0, 0.05)),
                is_ordered=is_ordered,
            ),
            faults=draw_kinds(random, replication, min_isr),
            send_gap_ms=random.choice((20, 60, 150)),
            unreliable_producer=random.random() < 0.4,
            tail_cache_bytes=random.choice((0, 1_000, 1 << 20)),
            replica_fetch_bytes=random.choice((1_000, 10_000, 1 << 20)),
            fetchers=random.choice((1, 1, 2)),
            unclean=min_isr > 1 and random.random() < 0.3,
            compacts=random.random() < 0.5,
            is_brisk=True,
            groups=random.choice(("streams", *[""] * 8, "classic", "modern", "mixed")),
        )
        if plan.groups:  # four more topics, so all other sizes are small
            plan = replace(plan, partitions=min(plan.partitions, 2), unclean=False, drivers=True)
        is_safe = plan.durability == "fsync" and (replication == 1 or min_isr > 1)
        if is_safe and random.random() < 0.5:
            plan = replace(plan, faults=(*plan.faults, BLACKOUT))
        if random.random() < 0.08:
            # Few faults, each long enough to show a record that is not committed in time: see commit_laws.py.
            kinds = tuple(kind for kind in plan.faults if random.random() < 0.3)
            plan = replace(plan, faults=(*kinds, "drain", "pause", "silence"), fault_gap_ms=4_000)
            plan = replace(plan, fault_ms=40_000, longest_ms=20_000, idempotent=True, readers=False)
        return replace(plan, static_threads=plan.groups == "streams" and random.random() < 0.5)


class SimCluster:
    """One run; see the module's docstring."""

    node_class: type[SimNode] = SimNode

    def __init__(self, seed: int | str, plan: Plan | None = None, *, keep_trace: bool = False) -> None:
        self.world = World(seed, keep_trace=keep_trace)
        self.random = self.world.stream("cluster")
        self.plan = plan or self._drawn()
        self.world.note(repr(self.plan))
        self.network = Network(self.world)
        self.transport = Transport(self.network)
        self.history = History(lambda: self.world.now_ms)
        self.rules = Laws(self)
        self.topics = ["t", UNCLEAN] if self.plan.unclean else ["t"]
        self.config = ControllerConfig.of(
            {
                "metadata.log.dir": METADATA_DIR,
                "broker.session.timeout.ms": 1_200,
                "broker.heartbeat.interval.ms": 250,
                "leader.imbalance.check.interval.seconds": 3,
                "min.insync.replicas": self.plan.min_isr,  # of the offsets topic
            }
        )
        self._make_controllers()
        self.nodes = {
            node_id: self.node_class(self, node_id, self._node_config(node_id))
            for node_id in range(1, self.plan.nodes + 1)
        }
        self.transport.servers |= {node.name: node for node in self.nodes.values()}
        self._make_clients()
        self.groups = Groups(self) if self.plan.groups else None
        self.access = access.Access(self) if self.plan.acls else None
        self.balancer = sim_balancer.SimBalancer(self) if self.plan.balances else None
        self.faults = Faults(self)
        self.silent_until_ms = 0  # before this time producers send no new records
        self._lagging: tuple[SimConsumer, tuple[str, int]] | None = None  # found by the last `have_read`
        self.commits = CommitLaw(self)
        self.touched_nodes: dict[str, SimNode] = {}
        self.world.on_event = self._check

    def _drawn(self) -> Plan:
        """A random plan. The compression, the rules and balances have separate random streams, so that the
        other draws do not depend on them."""
        plan = Plan.draw(self.random)
        codecs = ("producer", "producer", "gzip", "uncompressed")
        has_acls = self.world.stream("acls").random() < 0.3
        plan = replace(plan, compression=self.world.stream("compression").choice(codecs), acls=has_acls)
        if self.world.stream("balances").random() < 0.25:
            kinds = tuple(kind for kind in plan.faults if kind not in sim_balancer.OTHERS)
            plan = replace(plan, balances=True, nodes=4, faults=kinds)
        return plan

    def _make_controllers(self) -> None:
        self.touched: list[SimControllerNode] = []
        self.acknowledged: dict[str, int] = {}  # used by the workload of quorum.py, which is not run here
        self.laws = quorum_laws.Laws(self)  # type: ignore[arg-type]
        ids = range(1, self.plan.controllers + 1)
        self.bootstrap = tuple(ids)
        described = [voter(ReplicaKey(node, self._disk_id(node)), Endpoint(f"c{node}", 9001)) for node in ids]
        voters = VoterSet(tuple(described))
        self.controllers = {node: SimControllerNode(self, node, voters=voters) for node in ids}
        self.transport.servers |= {each.name: each for each in self.controllers.values()}

    def _node_config(self, node_id: int) -> NodeConfig:
        values = {
            "log.dirs": ",".join(DIRS),
            "log.dir.reserve.bytes": 2_000,  # small, so that it runs out
            "node.id": node_id,
            "controller.request.timeout.ms": 1_000,
            "controller.backoff.ms": 50 if self.plan.is_brisk else 20,
            "controller.backoff.max.ms": 200,
            "metadata.fetch.max.wait.ms": 500,
            "controlled.shutdown.timeout.ms": 2_000,
            "replica.lag.time.max.ms": 1_500,
            "replica.fetch.wait.max.ms": 500 if self.plan.is_brisk else 200,
            "replica.fetch.max.bytes": self.plan.replica_fetch_bytes,
            "replica.fetch.response.max.bytes": 2 * self.plan.replica_fetch_bytes,
            "num.replica.fetchers": self.plan.fetchers,
            "log.tail.cache.bytes": self.plan.tail_cache_bytes,
            "log.retention.check.interval.ms": 1_000,
            "log.durability": self.plan.durability,
            "log.cleaner.min.cleanable.ratio": 0.01,
            "log.cleaner.dedupe.buffer.size": 1 << 20,  # small: each new page of memory takes time
            "offsets.topic.num.partitions": 2,
            "log.roll.ms": 1_000,
            "offsets.topic.replication.factor": self.plan.replication,
            "offsets.commit.timeout.ms": 1_500,
            "transaction.state.log.num.partitions": 2,
            "transaction.state.log.replication.factor": self.plan.replication,
            "transaction.state.log.min.isr": self.plan.min_isr,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
            "group.min.session.timeout.ms": 1_000,
            "group.initial.rebalance.delay.ms": 200,
            "group.consumer.session.timeout.ms": 1_500,
            "group.consumer.heartbeat.interval.ms": 300,
            **sim_streams.CONFIGS,
            **(access.CONFIGS if self.plan.acls else {}),
            **({"broker.rack": f"rack-{node_id % 2}"} if self.plan.balances else {}),
        }
        return NodeConfig.of(values)

    def _make_clients(self) -> None:
        plan = self.plan
        self.producers = [
            SimProducer(self, "p0", -1, plan.send_gap_ms, producer_id=2 if plan.idempotent else -1),
            SimProducer(self, "p1", -1, plan.send_gap_ms, producer_id=1),
        ]
        if plan.unreliable_producer:
            self.producers.append(SimProducer(self, "loose", 1, plan.send_gap_ms))
        self.eraser = Eraser(self)
        self.keyed = KeyedProducer(self) if plan.compacts else None
        self.consumers = [
            SimConsumer(self, "tail", may_seek=False),
            SimConsumer(self, "seeker", may_seek=True),
        ]
        if not plan.readers:
            self.consumers.clear()
        if self.keyed is not None:
            self.producers.append(self.keyed)
            self.mirror = Mirror(self)

    @property
    def checked_topics(self) -> list[str]:
        """The topics whose replicas must be equal at the end."""
        return [*self.topics, *((SOURCE, COPY) if self.plan.groups else ())]

    @property
    def may_erase(self) -> bool:
        """Whether records may be deleted before a consumer has read them."""
        return not {"erase", "retain"}.isdisjoint(self.plan.faults)

    # --- a run --------------------------------------------------------------------------------------------

    def run(self) -> SimCluster:
        """All three phases. Errors: AssertionError for a broken law."""
        with uncollected():
            self._run()
        return self

    def _run(self) -> None:
        self.begin()
        self.network.weather = self.plan.weather
        if self.balancer is not None:
            self.balancer.start()
        if self.plan.scenario:
            SCENARIOS[self.plan.scenario](self)
        else:
            self.faults.begin()
            self.world.run(self.plan.fault_ms)
        self.heal()
        self.finish()

    def begin(self) -> None:
        """The start: until all replicas are in sync and every producer has an acknowledged record."""
        for process in (*self.controllers.values(), *self.nodes.values()):
            self.world.after(self.random.randrange(50), f"{process.name} starts first", process.start)
        self._create_topics()
        mirrors = [self.mirror] if self.keyed is not None else []
        groups = [] if self.groups is None else self.groups.clients
        for client in (*self.producers, *self.consumers, *mirrors, *groups, self.eraser):
            self.world.after(self.random.randrange(500), f"{client.name} begins", client.start)
        if self.access is not None:
            self.access.start()
        self.require(WARM_UP_MS, self.has_progress(), "nothing works before any fault")

    def heal(self) -> None:
        """End all faults; killed processes restart by themselves."""
        self.world.note("heal")
        self.faults.end()
        if "retain" in self.plan.faults:
            retain(self, *NO_RETENTION)

    def finish(self) -> None:
        """The recovery. Errors: AssertionError if a condition takes too long, or a law is broken."""
        patience_ms = self.plan.patience_ms
        self.require(patience_ms, self.has_progress(), "no progress after everything was healed")
        if self.balancer is not None:
            self.balancer.end()
            self.require(patience_ms, self.balancer.is_done, "RunEnds: a balance does not end")
        for producer in self.producers:
            producer.is_sending = False
        self.require(patience_ms, lambda: all(p.is_done for p in self.producers), "a producer waits for ever")
        self.require(patience_ms, self.is_in_sync, "replicas do not come into sync")
        if self.access is not None:
            self.access.end()
            self.require(patience_ms, self.access.is_settled, "rules are not obeyed")
        if "erase" in self.plan.faults:
            wanted = {key: end // 2 for key, end in self.rules.ends.items() if key[0] in lasting_topics(self)}
            self.require(patience_ms, self.eraser.has_erased(wanted), "records cannot be deleted")
        final = SimConsumer(
            self, "final", may_seek=False, limits=FINAL_LIMITS if self.plan.is_brisk else None
        )
        self.consumers.append(final)
        final.start()
        self.require(patience_ms, self.are_consumers_done, "a consumer does not get to the end")
        if self.groups is not None:
            self.groups.end()
        for consumer in self.consumers:
            consumer.is_reading = False
        self._end_requests()
        if self.keyed is not None:
            compacting.check(self, self.keyed, self.mirror)
        if self.groups is not None:
            self.groups.check_coordinators()
        self.rules.at_end()
        self.laws.at_end()
        self.history.starts = dict(self.rules.starts)
        unclean = self.rules.unclean_epochs
        history = self.history.only(lambda key: key not in unclean) if unclean else self.history
        anomalies = history.anomalies()
        assert not anomalies, f"history: {anomalies}"
        if self.plan.unclean:
            check_unclean(self)

    def _end_requests(self) -> None:
        """Run until every pending request has its response and every decided transaction is complete;
        `Laws.at_end` reports those that are not."""
        if not self.plan.is_brisk:
            self.world.run(LAST_ANSWER_MS)
            return
        self.world.run(ARRIVAL_MS)
        waiting = [each for node in self.nodes.values() for each in node.requests]
        groups = self.groups
        self.world.run(
            LAST_ANSWER_MS,
            until=lambda: (
                all(each.is_answered for each in waiting) and (groups is None or groups.are_settled())
            ),
        )

    def require(self, limit_ms: int, condition: Callable[[], bool], text: str) -> None:
        """Liveness: run until the condition holds. Errors: AssertionError after the limit."""
        assert self.world.run(limit_ms, until=condition), f"{text}: {limit_ms} ms, {self.summary()}"

    def has_progress(self) -> Callable[[], bool]:
        """Condition: every producer has a new acknowledged record, all nodes are active and all replicas in
        sync. A node that is still shutting down would miss the last checks."""
        before = [producer.acknowledged for producer in self.producers]

        def is_so() -> bool:  # called after every event
            for producer, count in zip(self.producers, before, strict=True):
                if producer.acknowledged <= count:
                    return False
            return all(node.is_active for node in self.nodes.values()) and self.is_in_sync()

        return is_so

    def is_in_sync(self) -> bool:
        """Every partition has a leader and all its replicas."""
        image = self.rules.image
        names = [*self.checked_topics, *([compacting.TOPIC] if self.plan.compacts else ())]
        if any(name not in image.topics for name in names):
            return False
        is_quiet = all(not producer.is_sending for producer in self.producers)
        for name in names:
            for number, registration in enumerate(image.topics[name].partitions):
                if registration.leader < 0 or sorted(registration.isr) != sorted(registration.replicas):
                    return False
                logs = [self.nodes[node].log_of((name, number)) for node in registration.replicas]
                if None in logs:
                    return False
                if is_quiet and name in self.topics and len({log.log_end_offset for log in logs if log}) != 1:
                    return False
        return True

    def are_consumers_done(self) -> bool:
        """Every consumer's positions are at the log end offsets."""
        image = self.rules.image
        keys = [
            (name, number) for name in self.topics for number in range(len(image.topics[name].partitions))
        ]
        readers: list[tuple[SimConsumer, list[tuple[str, int]]]] = [(each, keys) for each in self.consumers]
        if self.keyed is not None:
            topic = compacting.TOPIC
            readers.append((self.mirror, [(topic, n) for n in range(len(image.topics[topic].partitions))]))
        return self.have_read((reader, key) for reader, read in readers for key in read)

    def have_read(self, places: Iterable[tuple[SimConsumer, tuple[str, int]]]) -> bool:
        """Whether each of these consumers is at the log end offset of its partition."""
        if self._lagging is not None and self._is_behind(*self._lagging):  # as at the last event
            return False
        self._lagging = next((place for place in places if self._is_behind(*place)), None)
        return self._lagging is None

    def _is_behind(self, reader: SimConsumer, key: tuple[str, int]) -> bool:
        return reader.position_of(key) < self.end_of(key)

    def end_of(self, key: tuple[str, int]) -> int:
        """The leader's log end offset; a very high one while there is no leader."""
        registration = registration_of(self.rules.image, key)
        assert registration is not None
        node = self.nodes.get(registration.leader)
        log = None if node is None else node.log_of(key)
        return 1 << 62 if log is None else log.log_end_offset

    def summary(self) -> str:
        """The state of the cluster, for an assertion message."""
        image = self.rules.image
        parts = [
            f"{name}-{number}: leader {p.leader} epoch {p.leader_epoch}/{p.partition_epoch} isr {p.isr} "
            f"elr {p.elr} ends {[self._end_of(node, (name, number)) for node in p.replicas]}"
            for name, topic in image.topics.items()
            for number, p in enumerate(topic.partitions)
        ]
        nodes = [
            f"{node.name} {node.membership.state.value} {node.running.image.offset}/{image.offset}"
            if node.is_alive
            else f"{node.name} dead"
            for node in self.nodes.values()
        ]
        fenced = [node for node, broker in image.brokers.items() if broker.is_fenced]
        active = [each.name for each in self.controllers.values() if each.core is not None]
        acked = [producer.acknowledged for producer in self.producers]
        return f"{parts} {nodes} fenced {fenced} deciding {active} acked {acked}"

    def _end_of(self, node_id: int, key: tuple[str, int]) -> Any:
        log = self.nodes[node_id].log_of(key)
        return None if log is None else log.log_end_offset

    # --- helpers ------------------------------------------------------------------------------------------

    def ask_controller(self, api: Any, body: Any, done: Callable[[Any], None]) -> bool:
        """Send an operator's request to the active controller; `done` gets the response or an error. False if
        there is no active controller."""
        active = [each for each in self.controllers.values() if each.core is not None]
        if active:
            link = self.transport.open(self.producers[0], self.random.choice(active).name)

            def answered(response: Any, _frames: Sequence[bytes]) -> None:
                link.close()
                done(response)

            link.ask(api, body, (), 1_000, answered)
        return bool(active)

    def guess_controller(self, random: random.Random) -> str:
        """The controller to which a node connects next: more often the active one than others."""
        active = [each.name for each in self.controllers.values() if each.core is not None]
        if active and random.random() < 0.6:
            return active[0]
        return random.choice([each.name for each in self.controllers.values()])

    def directory_id(self, node: int, _voters: VoterSet | None) -> bytes:
        """The directory id of a controller's disk."""
        return self._disk_id(node)

    @staticmethod
    def _disk_id(node: int) -> bytes:
        return bytes([node]) * 16

    def _create_topics(self) -> None:
        """Send CreateTopics until the topics exist."""
        if all(name in self.rules.image.topics for name in self.topics):
            return
        plan = self.plan
        image = self.rules.image
        if sum(not broker.is_fenced for broker in image.brokers.values()) == plan.nodes:
            configs = {
                "durability": plan.durability,
                "segment.ms": "1500",
                "compression.type": plan.compression,
            }
            others = {
                "t": {"min.insync.replicas": str(plan.min_isr)},
                UNCLEAN: {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
            }
            ids = sorted(self.nodes)
            assignments = tuple(
                ReplicaAssignment(n, tuple(ids[(n + k) % len(ids)] for k in range(plan.replication)))
                for n in range(plan.partitions)
            )
            specs = tuple(
                NewTopicSpec(name, assignments=assignments, configs=configs | others[name])
                for name in self.topics
            )
            if plan.compacts:
                compacted = configs | others["t"] | compacting.CONFIGS
                specs += (NewTopicSpec(compacting.TOPIC, assignments=assignments, configs=compacted),)
            if plan.groups:
                own = configs | others["t"]
                specs += tuple(
                    NewTopicSpec(name, assignments=assignments, configs=own) for name in (SOURCE, COPY)
                )
            self.ask_controller(registry.CREATE_TOPICS, CreateTopicsRequest(specs), self._created)
        self.world.after(100, "create topics", self._create_topics)

    def _created(self, response: Any) -> None:
        if not isinstance(response, KafkaError):
            for topic in response.topics:
                assert topic.error_code in (0, 36), f"{topic}"

    def _check(self) -> None:
        if self.touched:
            for controller in self.touched:
                self.laws.check(controller)
            self.touched.clear()
        if self.touched_nodes:
            for node in self.touched_nodes.values():
                self.rules.check(node)
                if self.access is not None:
                    self.access.check(node)
            self.touched_nodes.clear()
        if self.balancer is not None:
            self.balancer.laws.check()
        if self.world.now_ms >= self.commits.next_ms:
            self.commits.check()
