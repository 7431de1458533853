"""The faults of a simulated cluster, within a budget that the cluster must survive.

The budget: at most one storage node at a time may lose unsynced bytes, or have lost some without a
registration that reports it, and each partition that it may lead has another replica in ISR or ELR. A
partition with one replica keeps its records because they are synced. Topics with unclean elections are not
protected. In a blackout all nodes lose unsynced bytes together: with durability=fsync that loses no
acknowledged record, with async only records that some ISR member had not flushed. Controllers sync before
they respond, so any number of them may be killed; they keep their disks (quorum.py replaces disks).
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from cluster_losses import UNCLEAN
from erasing import NO_RETENTION, retain
from headrace.controller.quorum import events
from headrace.protocol.errors import KafkaError, NotControllerError
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import (
    AlterConfigs,
    AlterPartitionReassignmentsRequest,
    ConfigChange,
    ConfigResource,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DrainNodeRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    NewTopicSpec,
    PartitionGrowth,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.protocol.metadata.image import TOPIC_RESOURCE
from network import FAIR, Weather
from sim_node import USUAL_DISK_MS

if TYPE_CHECKING:
    import random

    from cluster import SimCluster
    from sim_node import SimNode

# Faults by which a node may lose unsynced bytes.
LOSSY = ("crash", "io", "full", "kill", "power", "flip", "wipe", "harm")
KINDS = (
    *LOSSY, "stop", "pause", "cut", "isolate", "split", "clog", "weather", "slow", "clock", "evict",
    "controller_crash", "controller_power", "controller_pause", "controller_cut", "controller_stop",
    "elect", "move", "reassign", "grow", "topics", "configs", "notice", "erase", "retain", "drain", "silence",
)  # fmt: skip


BLACKOUT = "blackout"


def draw_kinds(random: random.Random, replication: int, min_isr: int) -> tuple[str, ...]:
    """The kinds of faults of one run."""
    excluded: tuple[str, ...] = ()
    if replication == 1:
        excluded = ("flip", "wipe", "harm")
    elif min_isr == 1:
        # The other replicas may be fenced before the node restarts: then it is the last ISR member.
        excluded = LOSSY
    kinds = tuple(kind for kind in KINDS if kind not in excluded)
    return tuple(kind for kind in kinds if random.random() < 0.5) or ("pause",)


class Faults:
    """Injects random faults from `begin` to `end`."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster, self._world = cluster, cluster.world
        self._random = cluster.world.stream("faults")
        self._is_on = False
        self._armed: SimNode | None = None  # node with a pending disk fault that will kill it
        self._armed_life = 0
        self._harmed: SimNode | None = None  # node with a log to be damaged after its clean shutdown
        self._incarnations: list[bytes] = []  # of all processes of nodes, including ended ones

    def begin(self) -> None:
        """Inject the first fault and schedule the next ones."""
        self._is_on = True
        self._go_on()

    def end(self) -> None:
        """End all faults and undo those that last."""
        self._is_on = False
        cluster = self._cluster
        cluster.network.heal()
        cluster.network.weather = FAIR
        cluster.silent_until_ms = self._world.now_ms
        for process in (*cluster.controllers.values(), *cluster.nodes.values()):
            process.files.crash_at = None
            process.files.clear_faults()
            process.files.capacity_bytes = None
            process.pause.end()
        for node in cluster.nodes.values():
            node.flush_ms = node.read_ms = USUAL_DISK_MS
            if node.taken.folder:  # the next start puts the folder back
                node.taken.starts = 0
                node.stop()
            else:
                node.repair()
        if "drain" in cluster.plan.faults:
            self._look_for_drained_nodes()
        for consumer in cluster.consumers:
            consumer.may_seek = False
        for producer in cluster.producers:
            producer.gap_ms = max(producer.gap_ms, 100)  # so that followers with small fetches catch up

    def _go_on(self) -> None:
        plan = self._cluster.plan
        if self._is_on and plan.faults:
            kind = self._random.choice(plan.faults)
            self._world.note(kind)
            getattr(self, f"_{kind}")()
            gap_ms = 1 + int(self._random.expovariate(1 / plan.fault_gap_ms))
            self._world.after(gap_ms, "fault", self._go_on)

    # --- the budget ---------------------------------------------------------------------------------------

    def _victim(self) -> SimNode | None:
        """A live node that may lose unsynced bytes within the budget, None if there is none."""
        nodes = self._cluster.nodes.values()
        if self._is_taken():
            return None
        candidates = [node for node in nodes if node.is_alive and self._may_lose(node)]
        if not candidates:
            return None
        return self._random.choice(candidates)

    def _is_taken(self) -> bool:
        """Whether the budget is used: a node may lose unsynced bytes, or has lost some and not registered
        since."""
        return self._armed_node() is not None or any(node.is_lossy for node in self._cluster.nodes.values())

    def _armed_node(self) -> SimNode | None:
        """The node with a pending disk fault."""
        armed = self._armed
        if armed is not None and (armed.life != self._armed_life or not armed.is_alive):
            self._armed = None
        return self._armed

    def _may_lose(self, node: SimNode) -> bool:
        cores = [each.core for each in self._cluster.controllers.values()]
        images = [self._cluster.rules.image, *(core.image for core in cores if core is not None)]
        for image in images:
            for topic in image.topics.values():
                for partition in () if topic.name == UNCLEAN else topic.partitions:
                    safe = {*partition.isr, *partition.elr}
                    if len(partition.replicas) > 1 and not safe - {node.node_id}:
                        return False
        return True

    def _arm(self, node: SimNode) -> None:
        self._armed, self._armed_life = node, node.life

    # --- storage nodes ------------------------------------------------------------------------------------

    def _crash(self) -> None:
        """Kill a node in one of its next disk operations; a write may be torn."""
        node = self._victim()
        if node is not None:
            self._arm(node)
            node.files.crash_at = len(node.files.operations) + self._random.randrange(20)
            node.files.tear_bytes = self._random.choice((0, 30, 100, 1 << 20))

    def _io(self) -> None:
        """Fail a disk operation: the log dir becomes offline and may have lost its unsynced bytes. The node
        ends when all its log dirs are offline, or when an operator restarts it."""
        node = self._victim()
        if node is not None:
            self._arm(node)
            node.has_bad_disk = True
            operation = self._random.choice(("pwrite", "fdatasync", "fsync_directory", "rename"))
            node.files.fail(operation, "", errno.EIO, self._random.randrange(5))
            self._world.after(self._random.randrange(500, 3_000), f"{node.name} is repaired", node.repair)

    def _full(self) -> None:
        """Fill the disk for a while; the node runs as long as its internal writes fit into the reserve."""
        node = self._victim()
        if node is not None:
            self._arm(node)
            node.has_bad_disk = True
            node.files.capacity_bytes = node.files.used_bytes() + self._random.randrange(500)

            def make_room() -> None:
                node.files.capacity_bytes = None
                if self._armed is node and node.life == life:
                    self._armed = None

            life = node.life
            self._world.after(self._random.randrange(1, 3_000), f"{node.name} has room", make_room)

    def _kill(self) -> None:
        node = self._victim()
        if node is not None:
            node.die(power=False)

    def _power(self) -> None:
        node = self._victim()
        if node is not None:
            node.die(power=True)

    def _blackout(self) -> None:
        """Scenario 32: a power loss of all nodes and controllers; on each disk a random part of the unsynced
        sectors survives."""
        cluster = self._cluster
        nodes = list(cluster.nodes.values())
        if self._is_taken():
            return
        if cluster.plan.durability == "async":
            # A response in flight could acknowledge a record that is lost now: it is dropped.
            cluster.network.drop()
        cluster.rules.on_blackout()
        for process in (*nodes, *cluster.controllers.values()):
            if process.is_alive:
                process.die(power=True)

    def _flip(self) -> None:
        """A power loss of a node, after which one bit of its unsynced bytes is flipped."""
        node = self._victim()
        if node is not None:
            node.die(power=True)
            node.rot()

    def _wipe(self) -> None:
        node = self._victim()
        if node is not None:
            self._cluster.rules.marks["wiped"] += 1
            node.wipe()

    def _harm(self) -> None:
        """Shut a node down cleanly; before its next start one of its logs is truncated or removed."""
        node = self._victim()
        if node is not None:
            self._arm(node)
            self._harmed = node
            node.stop()

    def on_stopped(self, node: SimNode) -> None:
        """Note that a node has shut down cleanly."""
        if node is self._harmed:
            self._harmed = None
            if self._is_on and node.life == self._armed_life and self._may_lose(node):
                node.harm()

    def _any(self) -> SimNode:
        return self._random.choice(list(self._cluster.nodes.values()))

    def _stop(self) -> None:
        self._any().stop()

    def _pause(self) -> None:
        """SIGSTOP, and SIGCONT after a while."""
        pause_ms = self._draw_pause_ms()
        self._stand_still(self._any(), pause_ms)

    def _draw_pause_ms(self) -> int:
        return self._random.randrange(1, self._cluster.plan.longest_ms)

    def _stand_still(self, node: SimNode, pause_ms: int) -> None:
        node.pause.begin(pause_ms)
        node.deaf_ms = pause_ms % 30 if self._cluster.plan.groups else 0

    def _drain(self) -> None:
        """Drain a node and undrain it a little later; often the node is paused in between, and its session
        has not expired when it is undrained."""
        node = self._any()
        drained_ms = self._random.randrange(300, 3_000)
        self.set_drained(node, is_drained=True)
        if self._random.random() < 0.7:
            begins_ms = drained_ms - self._random.randrange(1, min(drained_ms, 1_000))
            self._world.after(
                begins_ms, f"{node.name} stands still", lambda: self._stand_still(node, self._draw_pause_ms())
            )
        self._world.after(
            drained_ms, f"undrain {node.name}", lambda: self.set_drained(node, is_drained=False)
        )

    def set_drained(self, node: SimNode, *, is_drained: bool) -> None:
        """Drain or undrain a node. Only undraining is retried until it succeeds."""

        def answered(response: Any) -> None:
            if not is_drained and (isinstance(response, KafkaError) or response.error_code):
                self._world.after(100, f"undrain {node.name} again", ask)

        def ask() -> None:
            request = DrainNodeRequest(node.node_id, is_drained=is_drained)
            if not self._cluster.ask_controller(registry.DRAIN_NODE, request, answered):
                answered(NotControllerError("no controller is active"))

        ask()

    def _look_for_drained_nodes(self) -> None:
        """A delayed drain request may arrive after the undrain request: undrain nodes that are still
        drained."""
        for node_id, broker in self._cluster.rules.image.brokers.items():
            node = self._cluster.nodes[node_id]
            if broker.in_controlled_shutdown and node.is_active:
                self.set_drained(node, is_drained=False)
        self._world.after(1_000, "look for drained nodes", self._look_for_drained_nodes)

    def _silence(self) -> None:
        """Stop all producers for a while, so that high watermarks must advance without new appends."""
        silence_ms = self._random.randrange(1, self._cluster.plan.longest_ms)
        self._cluster.silent_until_ms = max(self._cluster.silent_until_ms, self._world.now_ms + silence_ms)

    def _slow(self) -> None:
        """Slow down a disk for a while."""
        node = self._any()
        node.flush_ms = self._random.choice((20, 200))
        node.read_ms = self._random.choice((2, 50))

        def recover() -> None:
            node.flush_ms = node.read_ms = USUAL_DISK_MS

        self._world.after(self._random.randrange(1, 4_000), f"{node.name} is fast", recover)

    def _evict(self) -> None:
        """Drop the page cache, so that reads use the disk."""
        self._any().files.evict()

    def _clock(self) -> None:
        """Change the wall clock of a node, but not its monotonic clock."""
        self._any().wall_skew_ms = self._random.choice((0, -3_600_000, 3_600_000, -50, 1_000))

    # --- the network --------------------------------------------------------------------------------------

    def _places(self) -> list[Any]:
        """The network names of each server; controllers have two."""
        cluster = self._cluster
        return [[node.name] for node in cluster.nodes.values()] + [
            [each.name, each.node_id] for each in cluster.controllers.values()
        ]

    def clients(self) -> list[str]:
        """The names of all current clients."""
        cluster = self._cluster
        names = [client.name for client in (*cluster.producers, *cluster.consumers)]
        return names if cluster.groups is None else names + cluster.groups.names()

    def _cut(self) -> None:
        """Cut the link from one server to another, in that direction only."""
        source, target = self._random.sample(self._places(), 2)
        for one in source:
            for other in target:
                self._cluster.network.cut(one, other)
        self._heal_later()

    def _isolate(self) -> None:
        """Cut a node off from all other servers, sometimes from clients too."""
        node = self._any()
        self.separate_from_servers(node)
        if self._random.random() < 0.5:
            self._cluster.network.separate([node.name], self.clients())
        self._heal_later()

    def separate_from_servers(self, node: SimNode) -> None:
        """Cut a node off from all other nodes and from the controllers."""
        others = [name for place in self._places() for name in place if name != node.name]
        self._cluster.network.separate([node.name], others)

    def _controller_cut(self) -> None:
        controller = self._random.choice(list(self._cluster.controllers.values()))
        mine = [controller.name, controller.node_id]
        others = [name for place in self._places() for name in place if name not in mine]
        self._cluster.network.separate(mine, others)
        self._heal_later()

    def _split(self) -> None:
        places = self._places()
        self._random.shuffle(places)
        middle = self._random.randrange(len(places) + 1)
        sides = [[name for place in part for name in place] for part in (places[:middle], places[middle:])]
        self._cluster.network.separate(*sides)
        self._heal_later()

    def _heal_later(self) -> None:
        self._world.after(self._random.randrange(1, 5_000), "heal", self._cluster.network.heal)

    def _clog(self) -> None:
        source, target = self._random.sample([name for place in self._places() for name in place], 2)
        self._cluster.network.clog(source, target, self._random.randrange(1, 3_000))

    def _weather(self) -> None:
        plan = self._cluster.plan.weather
        storm = Weather(5, 50, 0.2, 0.0 if plan.is_ordered else 0.2, plan.is_ordered)
        self._cluster.network.weather = self._random.choice((FAIR, plan, storm))

    # --- controllers and operators ------------------------------------------------------------------------

    def _controller(self) -> Any:
        """A random controller, active ones more often."""
        controllers = list(self._cluster.controllers.values())
        active = [each for each in controllers if each.core is not None]
        return self._random.choice(active if active and self._random.random() < 0.5 else controllers)

    def _notice(self) -> None:
        """Send a host notice that a node's process has ended: a correct, late or wrong one."""
        core = self._controller().core
        if core is not None:
            registered = {broker.incarnation_id for broker in core.image.brokers.values()}
            self._incarnations += sorted(registered.difference(self._incarnations))
            core.note_ended({self._random.choice(self._incarnations)})

    def _controller_crash(self) -> None:
        controller = self._controller()
        if controller.is_alive:
            controller.doom(self._random.randrange(12), self._random.choice((0, 30, 1 << 20)))

    def _controller_power(self) -> None:
        controller = self._controller()
        if controller.is_alive:
            controller.die(power=True)

    def _controller_pause(self) -> None:
        self._controller().pause.begin(self._random.randrange(1, 3_000))

    def _reassign(self) -> None:
        """Reassign a partition, or cancel its reassignment."""
        cluster = self._cluster
        count = cluster.plan.replication
        replicas = tuple(self._random.sample(sorted(cluster.nodes), count))
        partition = self._random.randrange(cluster.plan.partitions)
        wanted = None if self._random.random() < 0.2 else replicas
        topic = ReassignableTopic("t", (ReassignablePartition(partition, wanted),))
        request = AlterPartitionReassignmentsRequest((topic,))
        self._ask(registry.ALTER_PARTITION_REASSIGNMENTS, request)

    def _controller_stop(self) -> None:
        """Shut a controller down cleanly: an active controller resigns first."""
        controller = self._controller()
        controller.step(events.StopRequested())
        if controller.is_alive:
            controller.die(power=False)

    def _grow(self) -> None:
        """Add a partition to the topic. Not while a node may lose unsynced bytes: it could have the only copy
        of the new partition."""
        cluster = self._cluster
        topic = cluster.rules.image.topics["t"]
        is_whole = all(not broker.is_fenced for broker in cluster.rules.image.brokers.values())
        if self._is_taken() or self._harmed is not None or not is_whole:
            return
        if len(topic.partitions) < cluster.plan.partitions + 2:
            growth = PartitionGrowth("t", len(topic.partitions) + 1)
            self._ask(registry.CREATE_PARTITIONS, CreatePartitionsRequest((growth,)))

    def _topics(self) -> None:
        """Create and delete unused topics, some with the names of deleted ones."""
        name = f"x{self._random.randrange(3)}"
        if name in self._cluster.rules.image.topics:
            self._ask(registry.DELETE_TOPICS, DeleteTopicsRequest((name,)))
        else:
            spec = NewTopicSpec(name, 2, self._cluster.plan.replication)
            self._ask(registry.CREATE_TOPICS, CreateTopicsRequest((spec,)))

    def _configs(self) -> None:
        """Change segment.ms."""
        change = ConfigChange("segment.ms", 0, str(self._random.choice((200, 1_500, 60_000))))
        altered = AlterConfigs(ConfigResource(TOPIC_RESOURCE, "t"), (change,))
        self._ask(registry.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest((altered,)))

    def _erase(self) -> None:
        """Send DeleteRecords."""
        self._cluster.eraser.erase_some()

    def _retain(self) -> None:
        """Change retention.ms or retention.bytes, or disable retention again."""
        choices = (("retention.ms", "0"), ("retention.ms", "3000"), ("retention.bytes", "5000"))
        pair = self._random.choice((*choices, None))
        delay = ("file.delete.delay.ms", str(self._random.choice((0, 2_000))))
        self._cluster.rules.on_retention()
        retain(self._cluster, *NO_RETENTION, delay)
        if pair is not None:
            retain(self._cluster, pair)

    def _ask(self, api: Any, body: Any) -> None:
        self._cluster.ask_controller(api, body, lambda _: None)

    def _move(self) -> None:
        """Move a replica to another log dir of its node."""
        node = self._any()
        if node.is_alive:
            node.awake("moves a replica", node.move)

    def _elect(self) -> None:
        """Request preferred leader elections."""
        self._ask(registry.ELECT_LEADERS, ElectLeadersRequest(0, None))
