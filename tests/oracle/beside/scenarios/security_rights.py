"""Every API by users with no right, with one right less than needed, and with just enough; generated from the
table of required operations."""

import struct
from typing import Any

from headrace.runtime.waiting_io import until

from ..asking import Asking
from ..rights import CASES, OTHER, Case, Sender, name_of, senders, verdict
from ..rules import add_rules, rule
from ..scene import SETTLE_S, Scene, scenario
from ..wire import frame
from .raw_groups import find_coordinator

CLIENT = "security"
LOADING = ("coordinator_load_in_progress", "coordinator_not_available", "concurrent_transactions")
_TOKEN_APIS = ("create_delegation_token",)


@scenario(CLIENT, "rights of every API", is_secured=True)
def rights(scene: Scene) -> None:
    """Error codes, the names that a response shows, and the operations that it says are allowed."""
    with Asking(scene) as asking:
        _prepare(asking)
        for case in CASES:
            for sender in senders(case):
                scene.note(f"{case.label}/{sender.label}", _sent(scene, case, sender))


def _prepare(asking: Asking) -> None:
    """The topics of all cases, and the rules of all users."""
    names = [OTHER, *(case.own for case in CASES if case.api != "create_topics")]
    wanted = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    made = asking.ask("", "create_topics", 7, timeout=30_000, topics=wanted)
    assert {each["error_code"] for each in made["topics"]} == {"none"}, made
    rules = [
        rule(sender.user, right.operation, right.resource_type.value, name_of(case, right.resource_type))
        for case in CASES
        for sender in senders(case)
        for right in sender.rights
    ]
    add_rules(asking, rules)
    for kind in (0, 1):
        find_coordinator(asking, OTHER, kind)
    parts = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]
    for name in names:
        topics = [{"name": name, "partitions": parts}]
        asking.settled("", "list_offsets", 5, replica_id=-1, topics=topics)
    for case in CASES:
        if case.prepared:
            _PREPARED[case.prepared](asking, case.own)


def _offsets(asking: Asking, own: str) -> None:
    """Of a group without members."""
    part = {
        "partition_index": 0,
        "committed_offset": 1,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    at = {"generation_id_or_member_epoch": -1, "member_id": ""}
    topics = [{"name": own, "partitions": [part]}]
    asking.settled("", "offset_commit", 8, group_id=own, topics=topics, **at)


def _transaction(asking: Asking, own: str) -> None:
    """One with a partition."""
    fresh = {"transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    made = asking.settled("", "init_producer_id", 4, transactional_id=own, **fresh)
    ids = {name: made[name] for name in ("producer_id", "producer_epoch")}
    fields = {"transactional_id": own, **ids, "topics": [{"name": own, "partitions": [0]}]}
    asking.settled("", "add_partitions_to_txn", 3, **{f"v3_and_below_{k}": v for k, v in fields.items()})


def _member(asking: Asking, own: str) -> None:
    """Of a group of the new protocol, which subscribes to the topic."""
    fields = {
        "group_id": own,
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": [own],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
    }
    asking.settled("", "consumer_group_heartbeat", 0, **fields)


_PREPARED = {"offsets": _offsets, "transaction": _transaction, "member": _member}


def _sent(scene: Scene, case: Case, sender: Sender) -> Any:
    """What a response says of rights, or that there was none."""
    if case.api in _TOKEN_APIS:
        return token_error(scene, sender.user, case.api, case.version, case.fields(case.own))
    found: dict[str, Any] = {}
    with Asking(scene, user=sender.user) as asking:

        def is_settled() -> bool:
            found.clear()
            found.update(asking.ask("", case.api, case.version, **case.fields(case.own)))
            return not any(repr(word) in str(found) for word in LOADING)

        until(is_settled, SETTLE_S)
    return verdict(found) if found else "no response"


def token_error(scene: Scene, user: str, api: str, version: int, fields: dict[str, Any]) -> int:
    """The error code of a response about tokens: kio cannot read the time -1 of a refusal."""
    with Asking(scene, user=user) as asking:
        asking.wire.send(frame(api, version, fields))
        (code,) = struct.unpack_from(">h", asking.wire.answer(), 5)  # behind correlation id and tags
    return int(code)
