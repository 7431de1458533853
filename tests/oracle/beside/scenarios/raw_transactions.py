"""Transactions of the second protocol (KIP-890), where leaders add partitions, and their descriptions."""

from typing import Any

from headrace.runtime.waiting_io import until

from ..asking import Asking, batch
from ..scene import Scene, scenario
from .raw_groups import find_coordinator

CLIENT = "raw"


class Txn:
    """One transactional id with its producer, as the last answer named it."""

    def __init__(self, asking: Asking, name: str) -> None:
        self.asking, self.name, self.producer, self.epoch = asking, name, -1, -1
        find_coordinator(asking, name, 1)

    @property
    def identity(self) -> dict[str, Any]:
        return {"transactional_id": self.name, "producer_id": self.producer, "producer_epoch": self.epoch}

    def init(self, label: str, version: int, **change: Any) -> None:
        fields = {**self.identity, "transaction_timeout": 30_000, **change}
        self._take(self.asking.settled(label, "init_producer_id", version, **fields))

    def produce(self, label: str, sequence: int, **change: Any) -> None:
        """By version 12, which adds the partition."""
        me = {"producer_id": self.producer, "producer_epoch": self.epoch, **change}
        data = batch(base_sequence=sequence, is_transactional=True, **me)
        part = [{"name": self.asking.scene.topic, "partition_data": [{"index": 0, "records": data}]}]
        fields = {"acks": -1, "timeout": 10_000, "topic_data": part, "transactional_id": self.name}
        self.asking.settled(label, "produce", 12, **fields)

    def commit_offsets(self, label: str, version: int, **change: Any) -> None:
        part = {"partition_index": 0, "committed_offset": 9, "committed_metadata": "m"}
        topics = [{"name": self.asking.scene.topic, "partitions": [part]}]
        fields = {**self.identity, "group_id": f"{self.name}-group", "topics": topics, **change}
        self.asking.settled(label, "txn_offset_commit", version, **fields)

    def end(self, label: str, version: int, *, committed: bool = True, **change: Any) -> None:
        fields = {**self.identity, "committed": committed, **change}
        self._take(self.asking.settled(label, "end_txn", version, **fields))

    def described(self, label: str) -> None:
        self.asking.ask(label, "describe_transactions", 0, transactional_ids=[self.name])

    def until(self, state: str) -> None:
        """Until its markers are written and the coordinator knows."""

        def is_so() -> bool:
            response = self.asking.ask("", "describe_transactions", 0, transactional_ids=[self.name])
            return state in str(response)

        assert until(is_so, 300)

    def _take(self, response: dict[str, Any]) -> None:
        if response.get("producer_id", -1) >= 0:
            self.producer, self.epoch = response["producer_id"], response["producer_epoch"]


@scenario(CLIENT, "transactions of the second protocol")
def second(scene: Scene) -> None:
    """The epoch grows with each end; requests with an old one are fenced."""
    with Asking(scene) as asking:
        asking.create()
        find_coordinator(asking, scene.topic)
        for version in (4, 5):
            txn = Txn(asking, f"{scene.topic}-{version}")
            txn.init(f"init v{version}", version)
            txn.end(f"commit of none v{version}", version)
            txn.produce(f"produced v{version}", 0)
            txn.described(f"ongoing v{version}")
            asking.ask(f"add offsets v{version}", "add_offsets_to_txn", 4, **txn.identity, group_id="g-added")
            txn.commit_offsets(f"offsets v{version}", version)
            txn.described(f"with offsets v{version}")
            before = txn.epoch
            txn.end(f"committed v{version}", version)
            old = {"producer_epoch": before}
            txn.end(f"committed again v{version}", version, **old)
            txn.end(f"aborted after v{version}", version, committed=False, **old)
            if version > 4:
                txn.produce(f"old epoch v{version}", 3, **old)
            txn.produce(f"next v{version}", 0 if version > 4 else 3)
            txn.end(f"aborted v{version}", version, committed=False)
            txn.end(f"abort of none v{version}", version, committed=False)
            txn.until("CompleteAbort")
            txn.described(f"ended v{version}")
            txn.init(f"init again v{version}", version)
            txn.init(f"init late v{version}", version, **old)
            txn.init(f"init other v{version}", version, producer_id=txn.producer + 1000)
            txn.init(f"init without id v{version}", version, producer_id=-1, producer_epoch=-1)
        asking.until_stable()
        asking.all_committed("committed")


@scenario(CLIENT, "offsets in transactions, refused")
def offsets(scene: Scene) -> None:
    """By members that are none, of groups that are none, by producers that are none."""
    with Asking(scene) as asking:
        asking.create()
        find_coordinator(asking, scene.topic)
        txn = Txn(asking, scene.topic)
        txn.init("", 5)
        for version in (3, 4, 5, 6, 7):
            if version == 6:  # once more, with the group in the transaction
                group = {"group_id": f"{scene.topic}-group"}
                asking.settled("added", "add_offsets_to_txn", 4, **txn.identity, **group)
            label_of = f"v{version}" if version < 6 else f"added v{version - 2}"
            for label, change in (
                ("member", {"member_id": "absent", "generation_id": 1}),
                ("generation", {"generation_id": 7}),
                ("instance", {"group_instance_id": "absent", "member_id": "x", "generation_id": 1}),
                ("group", {"group_id": ""}),
                ("epoch", {"producer_epoch": txn.epoch + 1}),
                ("producer", {"producer_id": txn.producer + 1000}),
                ("id", {"transactional_id": "no-such-id"}),
            ):
                asked = {"generation_id": -1, **change}
                txn.commit_offsets(f"{label} {label_of}", version if version < 6 else version - 2, **asked)
        txn.commit_offsets("good", 5, generation_id=-1)
        group = {"group_id": f"{scene.topic}-group", "member_id": None, "member_epoch": -1, "topics": None}
        asking.ask("unstable", "offset_fetch", 9, groups=[group], require_stable=True)
        asking.ask("stable", "offset_fetch", 9, groups=[group], require_stable=False)
        txn.end("aborted", 5, committed=False)
        asking.settled("after", "offset_fetch", 9, groups=[group], require_stable=False)


@scenario(CLIENT, "partitions of many transactions")
def added(scene: Scene) -> None:
    """AddPartitionsToTxn as leaders ask coordinators: several transactions, verified only."""
    with Asking(scene) as asking:
        asking.create(partitions=2)
        one, two = (Txn(asking, f"{scene.topic}-{number}") for number in (1, 2))
        for each in (one, two):
            each.init("", 5)

        def add(label: str, version: int, verify: bool, *wanted: tuple[Txn, int, dict[str, Any]]) -> None:
            made = [
                {
                    **txn.identity,
                    "verify_only": verify,
                    "topics": [{"name": scene.topic, "partitions": [partition]}],
                    **change,
                }
                for txn, partition, change in wanted
            ]
            asking.settled(label, "add_partitions_to_txn", version, transactions=made)

        for version in (4, 5):
            add(f"not there v{version}", version, True, (one, version - 4, {}), (two, version - 4, {}))
            add(f"added v{version}", version, False, (one, version - 4, {}))
            add(f"there v{version}", version, True, (one, version - 4, {}), (two, version - 4, {}))
            for label, change in (
                ("epoch", {"producer_epoch": one.epoch + 1}),
                ("producer", {"producer_id": one.producer + 1000}),
                ("id", {"transactional_id": "no-such-id"}),
                ("topic", {"topics": [{"name": "no-such-topic", "partitions": [0]}]}),
                ("partition", {"topics": [{"name": scene.topic, "partitions": [0, 7]}]}),
            ):
                for verify in (True, False):
                    kind = "verify" if verify else "add"
                    add(f"{kind} {label} v{version}", version, verify, (one, 0, change))
        one.end("ended", 5, committed=False)


@scenario(CLIENT, "transactions listed and described")
def looked_at(scene: Scene) -> None:
    """Lists by state, producer, age and pattern; descriptions; markers written by hand."""
    with Asking(scene) as asking:
        asking.create()
        open_one, ended = (Txn(asking, f"{scene.topic}-{name}") for name in ("open", "ended"))
        for each in (open_one, ended):
            each.init("", 5)
            each.produce("", 0)
        ended.end("", 5)
        ended.until("CompleteCommit")

        def listed(label: str, version: int, **more: Any) -> None:
            wanted = {"state_filters": [], "producer_id_filters": [], **more}
            found = asking.settled("", "list_transactions", version, **wanted)
            states = found.get("transaction_states", ())
            mine = [each for each in states if scene.topic in each["transactional_id"]]
            mine.sort(key=lambda each: str(each["transactional_id"]))
            scene.note(label, {**found, "transaction_states": mine})

        for version in range(3):
            listed(f"all v{version}", version)
            listed(f"ongoing v{version}", version, state_filters=["Ongoing"])
            listed(f"unknown v{version}", version, state_filters=["Ongoing", "NoSuch", "ongoing"])
            by_producer = {"producer_id_filters": [open_one.producer]}
            listed(f"producer v{version}", version, **by_producer)
            listed(f"both v{version}", version, **by_producer, state_filters=["Empty"])
        for version in (1, 2):
            listed(f"old v{version}", version, duration_filter=3_600_000)
            listed(f"young v{version}", version, duration_filter=0)
        named = {"open": f"{scene.topic}-o.*", "part": "open", "bad": "(", "empty": ""}
        for label, pattern in named.items():
            listed(f"pattern {label}", 2, transactional_id_pattern=pattern)
        both = [open_one.name, ended.name]
        for label, names in (("both", both), ("unknown", ["no-such-id"]), ("empty", [""]), ("none", [])):
            asking.ask(f"described {label}", "describe_transactions", 0, transactional_ids=names)
        indexes = {"partition_indexes": [0, 9]}
        wanted = [{"name": scene.topic, **indexes}, {"name": "no-such-topic", **indexes}]
        asking.ask("producers", "describe_producers", 0, topics=wanted)
        _markers(asking, open_one)
        found = asking.ask("", "describe_producers", 0, topics=wanted[:1])
        found["topics"][0]["partitions"][0]["active_producers"].sort(key=lambda each: each["producer_id"])
        scene.note("producers after", found)
        open_one.end("ended at last", 5, committed=False)
        asking.until_stable()
        asking.all_committed("committed")


def _markers(asking: Asking, txn: Txn) -> None:
    def write(label: str, **change: Any) -> None:
        marker = {
            "producer_id": txn.producer,
            "producer_epoch": txn.epoch,
            "transaction_result": False,
            "coordinator_epoch": 7,
            "topics": [{"name": asking.scene.topic, "partition_indexes": [0]}],
            **change,
        }
        asking.ask(label, "write_txn_markers", 1, markers=[marker])

    write("marker: old epoch", producer_epoch=max(txn.epoch - 1, 0) if txn.epoch else 0)
    write("marker: no topic", topics=[{"name": "no-such-topic", "partition_indexes": [0]}])
    write("marker: no partition", topics=[{"name": asking.scene.topic, "partition_indexes": [9]}])
    write("marker: abort")
    write("marker: again")
    write("marker: old coordinator", coordinator_epoch=3)
    asking.ask("marker: none", "write_txn_markers", 1, markers=[])
