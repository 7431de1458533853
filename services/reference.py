"""Generates the pages AUTHORIZATION, CONFIG, ERRORS, METRICS, PROTOCOL and STATES of docs/ from
declarations in the code.

`python -m headrace.services.reference` (or `make docs`) writes them; a tidy test fails when they are stale.
"""

from __future__ import annotations

import inspect
import types
import typing
from pathlib import Path
from typing import Any

import msgspec

from ..clients.config import AdminConfig, ConnectionConfig, ConsumerConfig, ProducerConfig
from ..clients.group import states as member_states
from ..clients.producer import transactions
from ..controller.config import ControllerConfig
from ..controller.quorum import roles
from ..controller.state import broker_states, partition_states
from ..coordinators.group.classic_states import CLASSIC_TRANSITIONS, ClassicState
from ..coordinators.group.consumer_group import GROUP_TRANSITIONS, GroupState
from ..coordinators.group.consumer_member import MEMBER_TRANSITIONS, MemberState
from ..coordinators.runtime.hosted_shard import SHARD_TRANSITIONS, ShardState
from ..coordinators.streams import streams_group, streams_member
from ..coordinators.txn import states as txn_states
from ..protocol import errors
from ..protocol.messages import envelope, registry
from ..protocol.metadata import records
from ..protocol.security.required_operations import REQUIRED
from ..runtime.config import Config, KeyDeclaration, text_of
from ..runtime.telemetry.table import SECTIONS as METRIC_SECTIONS
from ..runtime.telemetry_config import ApplicationTelemetryConfig
from ..storage_node.configs.client_metrics_config import ClientMetricsConfig
from ..storage_node.configs.group_config import GroupConfig
from ..storage_node.configs.node_config import NodeConfig
from ..storage_node.links import membership
from ..storage_node.log.config import LogConfig
from ..storage_node.replica import followed
from ..stream.config import StreamsConfig
from ..stream.ray.config import WorkersConfig
from ..stream.task.states import TRANSITIONS as TASK_TRANSITIONS
from ..stream.task.states import TaskState
from ..stream.worker.states import INSTANCE_TRANSITIONS, InstanceState
from .rest.settings import RestConfig
from .web.settings import WebConfig

if typing.TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from enum import Enum

    from ..protocol.security.required_operations import Need, Required
    from ..runtime.telemetry.metric import Metric

SECTIONS: tuple[tuple[str, str, type[Config]], ...] = (
    (
        "Topic",
        "Set with `headrace topic create -X key=value` and `headrace config alter --topic NAME`.",
        LogConfig,
    ),
    ("Group", "Set with `headrace config alter --group NAME`.", GroupConfig),
    (
        "Client metrics subscription",
        "Set with `headrace client-metrics alter --name NAME`.",
        ClientMetricsConfig,
    ),
    (
        "Storage node",
        "Set with `headrace up -X key=value`, or as arguments of `headrace.local`. Dynamic keys: "
        "`headrace config alter --cluster-wide`; for one node, except `min.insync.replicas`, "
        "`--node ID`.",
        NodeConfig,
    ),
    (
        "Controller",
        "Set with `headrace up -X key=value`. Dynamic keys: `headrace config alter --cluster-wide`.",
        ControllerConfig,
    ),
    (
        "All clients",
        "Keyword arguments with underscores (`username` and `password` for `sasl.username` and"
        " `sasl.password`), or `config={...}`. Clients of one `connect()` share them.",
        ConnectionConfig,
    ),
    ("Producer", "Keyword arguments with underscores, or `config={...}`.", ProducerConfig),
    ("Consumer", "Keyword arguments with underscores, or `config={...}`.", ConsumerConfig),
    ("Admin", "Keyword arguments with underscores, or `config={...}`.", AdminConfig),
    (
        "Streams application",
        "Keyword arguments of `App` with underscores, or `config={...}`; keys of its clients have a prefix:"
        " `consumer.`, `producer.`, ...",
        StreamsConfig,
    ),
    (
        "Application telemetry",
        "Keyword arguments of `headrace.start_telemetry` with underscores, or `config={...}`.",
        ApplicationTelemetryConfig,
    ),
    (
        "Streams workers on Ray",
        "Keyword arguments of `stream.run` (`cpus=0.5`, `worker_cpus=0.5`), or `config={...}`.",
        WorkersConfig,
    ),
    (
        "Web server",
        "Set with `headrace rest -X key=value`; further keys are those of its clients.",
        WebConfig,
    ),
    ("REST", "Set with `headrace rest -X key=value`.", RestConfig),
)


def config_page() -> str:
    """docs/CONFIG.md: all keys with defaults, ranges and meanings."""
    parts = ["# Configuration\n", "Made by `make docs` from the declarations in the code.\n"]
    for title, how, config in SECTIONS:
        parts.append(f"## {title}\n\n{how}\n")
        parts.append("| key | default | range | meaning |\n| --- | --- | --- | --- |")
        parts += [_line(row) for row in _config_rows(title, config)]
        parts.append("")
    return "\n".join(parts)


def config_rows() -> list[dict[str, Any]]:
    """All keys as rows: `part`, `key`, `default` as text, `unit`, `range` (`low..high` or choices), `live`
    (may change while running) and `doc`."""
    return [row for title, _, config in SECTIONS for row in _config_rows(title, config)]


def metrics_page() -> str:
    """docs/METRICS.md: the metrics of servers and applications, with their names in each exporter."""
    parts = [
        "# Metrics\n",
        "Made by `make docs` from `runtime/telemetry/`. How to export them:"
        " [OPERATIONS.md](OPERATIONS.md#metrics).\n",
        "Names for Prometheus are those of its JMX exporter with that exporter's example rules for Kafka, so"
        " that dashboards and rules for Kafka work; a histogram has `_bucket`, `_sum` and `_count`."
        " Metrics with *and total* also have a series without labels.\n",
    ]
    for title, about, metrics in METRIC_SECTIONS:
        parts.append(f"## {title}\n" + (f"\n{about}\n" if about else ""))
        parts.append("| Prometheus | kind | labels | OpenTelemetry | Kafka | meaning |")
        parts.append("| --- | --- | --- | --- | --- | --- |")
        parts += [_metric_line(metric) for metric in sorted(metrics, key=lambda each: each.prometheus)]
        parts.append("")
    return "\n".join(parts)


def _metric_line(metric: Metric) -> str:
    labels = ", ".join(metric.labels) + (" and total" if metric.has_total else "")
    kafka = f"`{metric.mbean}`" if metric.domain.startswith("kafka.") else ""
    kind = f"{metric.kind.value}, {metric.unit}" if metric.unit != "1" else metric.kind.value
    return f"| `{metric.prometheus}` | {kind} | {labels} | `{metric.otel}` | {kafka} | {metric.doc} |"


def authorization_page() -> str:
    """docs/AUTHORIZATION.md: the operations that each api requires."""
    parts = [
        "# Required operations\n",
        "Made by `make docs` from `protocol/security/required_operations.py`. With `authorizer.class.name` a"
        " client needs rules that allow these operations, its own, those of `User:*` or those of its roles,"
        " on both protocols; other servers of the cluster and `super.users` need none. The node that receives"
        " a request checks it before it calls a handler or forwards the request.\n",
        "If the operation is not allowed, the request or that resource is rejected with the error of the"
        " resource's type, whether or not the resource exists; lists omit resources that the client may not"
        " describe. READ, WRITE, DELETE and ALTER imply DESCRIBE; ALTER_CONFIGS implies DESCRIBE_CONFIGS.\n",
        "| api | operation | when | rejected |\n| --- | --- | --- | --- |",
    ]
    for key, required in sorted(REQUIRED.items()):
        parts += _required_rows(key, required)
    notes = [f"- {each.name}: {each.note}" for _, each in sorted(REQUIRED.items()) if each.note]
    return "\n".join((*parts, "", "## Notes\n", *notes, ""))


def _required_rows(key: int, required: Required) -> list[str]:
    if not required.needs:
        return [f"| {required.name} ({key}) | none | | |"]
    return [
        f"| {required.name} ({key}) | {_rights_text(need)} | {need.when} | {need.scope.value} |"
        for need in required.needs
    ]


def _rights_text(need: Need) -> str:
    rights = [need.right] if need.alternative is None else [need.right, need.alternative]
    return " or ".join(
        f"{each.operation.name} on {each.resource_type.name.lower().replace('_', ' ')}" for each in rights
    )


def errors_page() -> str:
    """docs/ERRORS.md: all errors with their codes and meanings."""
    parts = ["# Errors\n", "Made by `make docs` from `protocol/errors.py`. Codes are Kafka's.\n"]
    parts.append("| class | code | retriable | meaning |\n| --- | --- | --- | --- |")
    for cls in _error_classes():
        code = str(cls.code) if issubclass(cls, errors.KafkaError) else "client"
        retriable = "yes" if cls.retriable else ""
        parts.append(f"| `{cls.__name__}` | {code} | {retriable} | {_first_line(cls)} |")
    parts.append("")
    return "\n".join(parts)


def protocol_page() -> str:
    """docs/PROTOCOL.md: the messages between headrace processes, field by field."""
    intro = (envelope.__doc__ or "").strip().split("\n\n", 1)[1]
    parts = ["# Messages\n", "Made by `make docs` from the message structs.\n", intro + "\n"]
    shown: set[type] = set()
    parts += [_struct(envelope.RequestHeader, shown), _struct(envelope.ResponseHeader, shown)]
    for api in registry.ALL_APIS:
        parts.append(f"## {api.name} (api key {api.key}, versions {api.min_version}..{api.max_version})\n")
        parts += [_struct(api.request, shown), _struct(api.response, shown)]
    return "\n".join(parts)


def _struct(struct: type, shown: set[type]) -> str:
    """One struct as a list, followed by its nested structs that were not shown yet."""
    shown.add(struct)
    about = " ".join((struct.__doc__ or "").split())
    lines = [f"**{struct.__name__}**: {about}\n"]
    inner: list[type] = []
    for name, kind in _fields(struct):
        lines.append(f"- `{name}`: {_type_name(kind, inner)}")
    parts = ["\n".join(lines) + "\n"]
    parts += [_struct(each, shown) for each in inner if each not in shown]
    return "\n".join(parts)


def _fields(struct: type) -> list[tuple[str, Any]]:
    """Names and types of the fields of a struct or named tuple."""
    if issubclass(struct, msgspec.Struct):
        return [(field.name, field.type) for field in msgspec.structs.fields(struct)]
    return list(typing.get_type_hints(struct).items())


def _type_name(kind: Any, inner: list[type]) -> str:
    """The name of a field's type; nested structs and named tuples, except metadata records, are added to
    `inner`."""
    arguments = [each for each in typing.get_args(kind) if each is not Ellipsis]
    if isinstance(kind, type) and (issubclass(kind, msgspec.Struct) or hasattr(kind, "_fields")):
        if kind.__module__ != records.__name__ and kind not in inner:
            inner.append(kind)
        return "metadata record" if kind.__module__ == records.__name__ else kind.__name__
    if not arguments:
        return "null" if kind is type(None) else str(kind.__name__)
    names = list(dict.fromkeys(_type_name(each, inner) for each in arguments))
    origin = typing.get_origin(kind)
    return " or ".join(names) if origin is types.UnionType else f"{origin.__name__} of {', '.join(names)}"


def states_page() -> str:
    """docs/STATES.md: state diagrams, drawn from the transition tables."""
    parts = ["# States\n", "Made by `make docs` from the transition tables in the code.\n"]
    parts.append("## Storage node in the controller (`controller/state/broker_states.py`)\n")
    arrows = [
        f"{state.value} --> {target.value}: {event.value.split(':')[0]}"
        for state, events in broker_states.TRANSITIONS.items()
        for event, target in events.items()
    ]
    parts.append(_drawing(broker_states.BrokerState.UNREGISTERED.value, arrows))
    parts.append("## Controller in the quorum (`controller/quorum/roles.py`)\n")
    arrows = [
        f"{role.value} --> {target.value}: {event.value}"
        for role, role_events in roles.TRANSITIONS.items()
        for event, target in role_events.items()
    ]
    parts.append(_drawing(roles.Role.UNATTACHED.value, arrows))
    where = "(`controller/state/partition_states.py`)"
    parts.append(f"## Partition in the controller {where}\n")
    parts.append(_drawing("new", _labelled(partition_states.PARTITION_TRANSITIONS)))
    parts.append(f"## Replica in the controller {where}\n")
    parts.append(_drawing("none", _labelled(partition_states.REPLICA_TRANSITIONS)))
    parts.append("## Classic group (`coordinators/group/classic_states.py`)\n")
    parts.append(_drawing(ClassicState.EMPTY.value, _labelled(CLASSIC_TRANSITIONS)))
    parts.append("## Transactional id (`coordinators/txn/states.py`)\n")
    parts.append(_drawing(txn_states.TxnState.EMPTY.value, _labelled(txn_states.TRANSITIONS)))
    where = "(`coordinators/runtime/hosted_shard.py`)"
    parts.append(f"## Coordinator shard {where}\n")
    parts.append(_drawing(ShardState.LOADING.value, _labelled(SHARD_TRANSITIONS)))
    where = "(`coordinators/group/consumer_group.py`)"
    parts.append(f"## Consumer-protocol group {where}\n")
    parts.append(_drawing(GroupState.EMPTY.value, _labelled(GROUP_TRANSITIONS)))
    parts.append(f"## Member of a consumer-protocol group {where}\n")
    parts.append(_drawing(MemberState.STABLE.name.lower(), _by_name(MEMBER_TRANSITIONS)))
    parts.append("## Streams group (`coordinators/streams/streams_group.py`)\n")
    arrows = _labelled(streams_group.GROUP_TRANSITIONS)
    parts.append(_drawing(streams_group.GroupState.EMPTY.value, arrows))
    parts.append("## Member of a streams group (`coordinators/streams/streams_member.py`)\n")
    parts.append(
        _drawing(streams_member.MemberState.STABLE.name.lower(), _by_name(streams_member.MEMBER_TRANSITIONS))
    )
    parts.append("## Registration of a storage node (`storage_node/links/membership.py`)\n")
    arrows = _plain(membership.MembershipState, membership.TRANSITIONS)
    parts.append(_drawing(membership.MembershipState.SEARCHING.value, arrows))
    parts.append("## Transaction in a producer (`clients/producer/transactions.py`)\n")
    arrows = _labelled(transactions.TRANSITIONS)
    parts.append(_drawing(transactions.TxnState.UNINITIALIZED.value, arrows))
    parts.append("## Partition of a follower (`storage_node/replica/followed.py`)\n")
    arrows = _plain(followed.FollowState, followed.TRANSITIONS)
    parts.append(_drawing(followed.FollowState.READY.value, arrows))
    where = "(`clients/group/states.py`)"
    first = member_states.MemberState.UNJOINED.value
    parts.append(f"## Consumer group member, classic protocol {where}\n")
    parts.append(_drawing(first, _labelled(member_states.CLASSIC_TRANSITIONS)))
    parts.append(f"## Consumer group member, consumer protocol {where}\n")
    parts.append(_drawing(first, _labelled(member_states.MODERN_TRANSITIONS)))
    parts.append("## Instance of a streams application (`stream/worker/states.py`)\n")
    parts.append(_drawing(InstanceState.CREATED.value, _labelled(INSTANCE_TRANSITIONS)))
    parts.append("## Task of a streams application (`stream/task/task.py`)\n")
    parts.append(_drawing(TaskState.CREATED.value, _plain(TaskState, TASK_TRANSITIONS)))
    return "\n".join(parts)


def _plain(states: type[Enum], table: Mapping[Any, Collection[Any]]) -> list[str]:
    order = list(states)
    return [
        f"{state.value} --> {target.value}"
        for state in order
        for target in sorted(table[state], key=order.index)
    ]


def _labelled(table: Mapping[Any, Mapping[Any, str]]) -> list[str]:
    return [
        f"{state.value} --> {target.value}: {label}"
        for state, targets in table.items()
        for target, label in targets.items()
    ]


def _by_name(table: Mapping[Any, Mapping[Any, str]]) -> list[str]:
    return [
        f"{state.name.lower()} --> {target.name.lower()}: {label}"
        for state, targets in table.items()
        for target, label in targets.items()
    ]


def _drawing(first: str, arrows: list[str]) -> str:
    lines = [f"[*] --> {first}", *arrows]
    return "```mermaid\nstateDiagram-v2\n" + "".join(f"    {line}\n" for line in lines) + "```\n"


def _config_rows(title: str, config: type[Config]) -> list[dict[str, Any]]:
    values = config.defaults()
    return [
        {
            "part": title,
            "key": declaration.name,
            "default": text_of(values[name]),
            "unit": declaration.unit,
            "range": ", ".join(filter(None, declaration.choices))
            if declaration.choices
            else _range(declaration),
            "live": declaration.live,
            "doc": declaration.doc,
        }
        for name, declaration in config.keys().items()
    ]


def _line(row: Mapping[str, Any]) -> str:
    unit = f" {row['unit']}" if row["unit"] and row["default"] else ""
    live = " May change while running." if row["live"] else ""
    return f"| `{row['key']}` | {row['default']}{unit} | {row['range']} | {row['doc']}{live} |"


def _range(declaration: KeyDeclaration) -> str:
    if declaration.low is None and declaration.high is None:
        return ""
    low = "" if declaration.low is None else f"{declaration.low}"
    high = "" if declaration.high is None else f"{declaration.high}"
    return f"{low}..{high}"


def _error_classes() -> list[type[errors.HeadraceError]]:
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass)]
    found = [cls for cls in classes if issubclass(cls, errors.HeadraceError)]
    return sorted(found, key=lambda cls: (getattr(cls, "code", -2), cls.__name__))


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").splitlines()[0]


def write_pages(folder: Path) -> None:
    """Write all pages into `folder`."""
    (folder / "AUTHORIZATION.md").write_text(authorization_page())
    (folder / "CONFIG.md").write_text(config_page())
    (folder / "ERRORS.md").write_text(errors_page())
    (folder / "METRICS.md").write_text(metrics_page())
    (folder / "PROTOCOL.md").write_text(protocol_page())
    (folder / "STATES.md").write_text(states_page())


if __name__ == "__main__":
    write_pages(Path(__file__).parents[1] / "docs")
