"""DescribeReplicas: what a node knows about its own replicas."""

from core_rig import CoreRig
from headrace.protocol.errors import InvalidRequestError
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import TopicPartitions
from headrace.protocol.messages.replicas import DescribeReplicasRequest, EpochStart
from node_rig import batch


def test_offsets_epochs_and_traffic_of_a_replica(rig: CoreRig) -> None:
    """Written and read bytes as counted; epochs only of named partitions; others are left out."""
    topic_id = rig.topic()
    frame = batch(b"x" * 100)
    rig.produce(topic_id, frame)
    rig.produce(topic_id, frame)
    read = sum(len(piece) for piece in rig.fetch(topic_id).answer_frames)
    name = rig.image.topic_names[topic_id]
    asked = DescribeReplicasRequest((TopicPartitions(name, (0, 7)), TopicPartitions("none", (0,))))
    (found,) = rig.ask(registry.DESCRIBE_REPLICAS, asked).answer.replicas
    assert (found.topic, found.partition, found.is_leader) == (name, 0, True)
    assert (found.log_start_offset, found.log_end_offset, found.high_watermark) == (0, 2, 2)
    assert (found.produced_bytes, found.fetched_bytes) == (2 * len(frame), read)
    assert found.epochs == (EpochStart(found.leader_epoch, 0),)
    assert found.last_timestamp_ms >= 0
    (whole,) = rig.ask(registry.DESCRIBE_REPLICAS, DescribeReplicasRequest()).answer.replicas
    assert whole.epochs == ()
    assert whole.size_bytes == found.size_bytes > 0


def test_too_many_partitions_are_an_error() -> None:
    """max.request.partitions counts repeated ones too."""
    rig = CoreRig(max_request_partitions=2)
    asked = DescribeReplicasRequest((TopicPartitions("t", (0, 0, 0)),))
    assert isinstance(rig.ask(registry.DESCRIBE_REPLICAS, asked).error, InvalidRequestError)
