"""Nodes, elections, reassignments and deletions of the fake cluster, by Kafka's rules."""

from collections.abc import Callable
from typing import Any

from headrace.clients.cluster.network import Address
from headrace.protocol.messages import control, data


class FakeReplication:
    """Controller requests on replicas. A reassignment is in progress until `finish_moves`."""

    topics: dict[str, Any]
    addresses: dict[int, Address]
    down: set[int]
    cluster_id: str
    metadata_offset: int
    truncate_start: Callable[[str, int, int], None]

    def __init__(self) -> None:
        self.racks: dict[int, str] = {}
        self.drained: set[int] = set()
        self.below_min_isr: tuple[str, ...] = ()  # topics that a drain would leave below min.insync.replicas
        self.unregistered: set[int] = set()
        self.features: tuple[data.FeatureLevel, ...] = ()
        self.compacted: set[str] = set()  # topics whose records may not be deleted

    def finish_moves(self) -> None:
        for _, _, part in self._all():
            if part.adding or part.removing:
                part.replicas = tuple(n for n in part.replicas if n not in part.removing)
                part.isr, part.adding, part.removing = part.replicas, (), ()
                if part.leader not in part.replicas:
                    part.leader = part.replicas[0]

    def _do_DescribeCluster(self, body: Any) -> Any:
        nodes = tuple(
            data.ClusterNode(
                node_id,
                address.host,
                address.port,
                self.racks.get(node_id),
                7,
                is_fenced=node_id in self.down,
                in_controlled_shutdown=node_id in self.drained,
            )
            for node_id, address in sorted(self.addresses.items())
            if node_id not in self.unregistered and (body.include_fenced_brokers or node_id not in self.down)
        )
        return data.DescribeClusterResponse(self.cluster_id, 100, self.metadata_offset, nodes, self.features)

    def _do_DeleteRecords(self, body: Any) -> Any:
        answers = []
        for entry in body.partitions:
            name = next(name for name, topic in self.topics.items() if topic.topic_id == entry.topic_id)
            part = self.topics[name].partitions[entry.partition]
            offset = part.end_offset if entry.offset == data.TO_HIGH_WATERMARK else entry.offset
            if name in self.compacted:
                answers.append(data.DeleteRecordsPartitionResponse(44))
            elif offset > part.end_offset:
                answers.append(data.DeleteRecordsPartitionResponse(1, error_detail="it ends before"))
            else:
                self.truncate_start(name, entry.partition, max(offset, part.log_start_offset))
                answers.append(data.DeleteRecordsPartitionResponse(0, part.log_start_offset))
        return data.DeleteRecordsResponse(tuple(answers))

    def _do_ElectLeaders(self, body: Any) -> Any:
        asked = [(t.topic, n) for t in body.topics or () for n in t.partitions]
        if body.topics is None:
            asked = [(name, number) for name, number, _ in self._all()]
        results = []
        for name, number in asked:
            code = self._elected(name, number, body.election_type)
            if code != 84 or body.topics is not None:
                results.append(control.PartitionError(name, number, code))
        return control.ElectLeadersResponse(0, "", tuple(results), self.metadata_offset)

    def _elected(self, name: str, number: int, election_type: int) -> int:
        part = self._find_part(name, number)
        if part is None:
            return 3
        able = [node_id for node_id in part.replicas if node_id not in self.down]
        if election_type == 0:
            first = part.replicas[0]
            if part.leader == first:
                return 84
            if first not in part.isr or first not in able:
                return 80
            part.leader = first
        elif part.leader >= 0 and part.leader not in self.down:
            return 84
        elif not able:
            return 83
        else:
            part.leader, part.isr = able[0], (able[0],)
        part.leader_epoch += 1
        return 0

    def _do_AlterPartitionReassignments(self, body: Any) -> Any:
        results = []
        for topic in body.topics:
            for item in topic.partitions:
                part = self._find_part(topic.name, item.partition)
                code = 3 if part is None else self._moved(part, item.replicas)
                results.append(control.PartitionError(topic.name, item.partition, code))
        return control.AlterPartitionReassignmentsResponse(0, "", tuple(results), self.metadata_offset)

    def _moved(self, part: Any, target: tuple[int, ...] | None) -> int:
        if target is None:
            if not part.adding and not part.removing:
                return 85
            part.replicas = tuple(n for n in part.replicas if n not in part.adding)
            part.adding = part.removing = ()
            return 0
        if any(node_id not in self.addresses for node_id in target):
            return 39
        before = tuple(n for n in part.replicas if n not in part.adding)
        part.adding = tuple(n for n in target if n not in before)
        part.removing = tuple(n for n in before if n not in target)
        part.replicas = target + part.removing
        return 0

    def _do_ListPartitionReassignments(self, body: Any) -> Any:
        wanted = None if body.topics is None else {(t.topic, n) for t in body.topics for n in t.partitions}
        ongoing = tuple(
            control.OngoingReassignment(name, number, part.replicas, part.adding, part.removing, part.isr)
            for name, number, part in self._all()
            if (part.adding or part.removing) and (wanted is None or (name, number) in wanted)
        )
        return control.ListPartitionReassignmentsResponse(0, "", ongoing)

    def _do_DrainNode(self, body: Any) -> Any:
        if body.node_id not in self.addresses:
            return control.DrainNodeResponse(102, "not registered")
        (self.drained.add if body.is_drained else self.drained.discard)(body.node_id)
        left = 0
        for _, _, part in self._all():
            if body.is_drained and part.leader == body.node_id:
                successors = [n for n in part.isr if n not in self.down and n not in self.drained]
                part.leader = successors[0] if successors else part.leader
                left += not successors
        topics = self.below_min_isr
        return control.DrainNodeResponse(0, "", left, self.metadata_offset, len(topics), topics)

    def _do_UnregisterBroker(self, body: Any) -> Any:
        if body.node_id not in self.addresses or body.node_id in self.unregistered:
            return control.UnregisterBrokerResponse(102, "not registered")
        if body.node_id not in self.down:
            return control.UnregisterBrokerResponse(42, "the node is active")
        self.unregistered.add(body.node_id)
        return control.UnregisterBrokerResponse(0)

    def _all(self) -> list[tuple[str, int, Any]]:
        return [
            (name, n, part)
            for name in sorted(self.topics)
            for n, part in enumerate(self.topics[name].partitions)
        ]

    def _find_part(self, name: str, number: int) -> Any:
        topic = self.topics.get(name)
        return topic.partitions[number] if topic is not None and number < len(topic.partitions) else None
