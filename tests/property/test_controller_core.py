"""The core under random requests and times: invariants after every step, and the log gives the image."""

from controller_kit import Driver, incarnation
from headrace.controller.state.broker_states import BrokerState, state_of
from headrace.protocol.messages import control
from headrace.protocol.messages.transactions import AllocateProducerIdsRequest
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.replay import image_of, image_records, replay
from hypothesis import given, settings
from hypothesis import strategies as st

NODES = st.integers(1, 3)
NAMES = st.sampled_from(["a", "a.b", "a_b", "c"])

STEPS = st.one_of(
    st.tuples(st.just("register"), NODES, st.integers(1, 5)),
    st.tuples(st.just("beat"), NODES, st.sampled_from(["", "want_fence", "want_shutdown"])),
    st.tuples(st.just("stale"), NODES, st.integers(-1, 40)),
    st.tuples(st.just("leave"), NODES),
    st.tuples(st.just("create"), NAMES, st.integers(0, 4)),
    st.tuples(st.just("grow"), NAMES, st.integers(0, 6)),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("alter"), NAMES, st.sampled_from(["1", "2", "x"])),
    st.tuples(st.just("wait"), st.sampled_from([10, 700, 1600])),
    st.tuples(st.just("ended"), st.sets(st.integers(1, 5))),
    st.tuples(st.just("ids"), NODES, st.integers(-1, 5)),
    st.tuples(st.just("restart")),
)


_ASKED = {
    "leave": control.UnregisterBrokerRequest,
    "grow": lambda name, count: control.CreatePartitionsRequest((control.PartitionGrowth(name, count),)),
    "delete": lambda name: control.DeleteTopicsRequest((name,)),
    "ids": AllocateProducerIdsRequest,
}


def _do(driver: Driver, kind: str, *facts) -> None:
    if kind == "register":
        driver.register(facts[0], process=facts[1])
    elif kind == "beat":
        if facts[0] in driver.image.brokers:
            driver.heartbeat(facts[0], **({facts[1]: True} if facts[1] else {}))
    elif kind == "stale":
        driver.ask(control.BrokerHeartbeatRequest(facts[0], facts[1], facts[1]))
    elif kind == "create":
        driver.create(facts[0], num_partitions=facts[1])
    elif kind in _ASKED:
        driver.ask(_ASKED[kind](*facts))
    elif kind == "alter":
        change = control.ConfigChange("min.insync.replicas", 0, facts[1])
        driver.ask(
            control.IncrementalAlterConfigsRequest(
                (control.AlterConfigs(control.ConfigResource(2, facts[0]), (change,)),)
            )
        )
    elif kind == "ended":
        driver.core.note_ended({incarnation(process) for process in facts[0]})
        driver.wait(0)
    elif kind == "wait":
        driver.wait(facts[0])
    else:
        driver.restart()


def _epochs(image: MetadataImage) -> dict:
    return {
        (topic.topic_id, number): (partition.leader_epoch, partition.partition_epoch)
        for topic in image.topics.values()
        for number, partition in enumerate(topic.partitions)
    }


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=30))
def test_random_histories_keep_the_invariants(steps) -> None:
    """Nodes register, miss heartbeats, shut down, restart, and are reported dead, rightly or not; topics are
    created, grow and are deleted; the controller restarts. `check` runs after every decision; epochs never
    decrease; a partition without a leader has no active replica; the log and its snapshot give the image."""
    driver = Driver()
    driver.join(1, 2)
    for step in steps:
        before = _epochs(driver.image)
        _do(driver, *step)
        after = _epochs(driver.image)
        assert all(after[key] >= before[key] for key in before.keys() & after.keys())
        for topic in driver.image.topics.values():
            for partition in topic.partitions:
                state = state_of(driver.image, partition.replicas[0])
                if state is BrokerState.SHUTTING_DOWN:
                    continue  # it still leads where no other replica can
                is_active = state is BrokerState.ACTIVE
                assert (partition.leader == partition.replicas[0]) == is_active
    image = driver.image
    assert replay(MetadataImage(), 0, driver.records)[0] == image
    assert image_of(image_records(image), image.offset) == image
