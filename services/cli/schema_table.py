"""The JSON that each command prints with -o json, in a short notation (`schema.py` reads it). Pure.

A command with -o json must be in this table: tests validate what commands print against it. `name: type` in
braces is an object with these keys only, `name?` may be missing, `...` allows others, `*: type` is any key.
Types are str, int, num, bool, any, with `?` also null, `[type]` a list, `a | b` either.
"""

from __future__ import annotations

_LATENCY = "{p50: num, p90: num, p99: num, p99_9: num, max: num, mean: num, count: int}?"
_BENCH = "bench: str, topic: str, partitions: int, temporary_topic: bool"
_SENT = (
    "records: int, failed: int, unsent: int, first_error: str?, bytes: int, elapsed_s: num,"
    f" records_per_s: num, mb_per_s: num, latency_ms: {_LATENCY}, latency_of: str, client_cpu_s: num,"
    " api: str, producers: int,"
    " throughput: num?, record_size: int?, warmup_records: int"
)
_READ = (
    f"records: int, bytes: int, elapsed_s: num, records_per_s: num, mb_per_s: num, latency_ms: {_LATENCY},"
    " client_cpu_s: num, api: str, consumers: int, expected: int"
)
_RULE = "{permission: str, principal: str, host: str, operation: str, resource: str, name: str, pattern: str}"
_ISSUED = (
    "{id: str, owner: str, requester: str, renewers: str, issued: str, expires: str, latest: str, hmac: str}"
)
_LAGS = (
    "[{topic: str, partition: int, committed: int?, start: int?, end: int?, lag: int?, seconds: num?,"
    " member: str?, instance: str?, client: str?, host: str?, error: str?}]"
)
_RESET = "[{group: str, topic: str, partition: int, old: int?, new: int}]"
_STORAGE = (
    "[{directory: str, role: str?, id: int?, cluster_id: str?, directory_id: str?, state: str, detail: str?}]"
)
_ENTRIES = "[{path: str, kind: str, value: any}]"
_CONTROLLER = (
    "{id: int, role: str, end_offset: int?, lag: int?, last_fetch_ms: int?, last_caught_up_ms: int?,"
    " endpoint: str?, directory: str}"
)
_NAMESPACE = "prefix: str, topics: int, max_topics: int?, partitions: int, max_partitions: int?, owner: str?"
_PRODUCER = (
    "topic: str, partition: int, producer_id: int, producer_epoch: int, coordinator_epoch: int,"
    " start_offset: int?, last_timestamp: str?, last_sequence: int"
)
_TXN = (
    "transactional_id: str, coordinator: int, producer_id: int, state: str, prepared: str?, prepared_s: int?"
)
_PLAN = "{version: int, partitions: [{topic: str, partition: int, replicas: [int]}]}"

TABLE: dict[str, str] = {
    "acl delete": f"[{_RULE}]",
    "acl explain": "{allowed: bool, because: str, rule: str?}",
    "acl lint": "[{rule: str, reason: str, because_of: str?}]",
    "acl list": f"[{_RULE}]",
    "audit": "[{...}]",
    "balance": "{moves: [{topic: str, partition: int, from: [int], to: [int], copies: int, goal: str}],"
    " dir_moves: [any], copied_bytes: int, expected_s: num?,"
    " goals: [{goal: str, before: num, after: num, unit: str, ...}],"
    " stuck: {...}, ...}",
    "bench consume": f"{{{_BENCH}, {_READ}}}",
    "bench latency": f"{{{_BENCH}, {_SENT}, received: int, repeated: int, ack_latency_ms: {_LATENCY},"
    " consumer_cpu_s: num}",
    "bench mixed": f"{{{_BENCH}, records_per_s: num, mb_per_s: num, latency_ms: {_LATENCY},"
    f" produce: {{{_SENT}, log_growth: int?}}, consume: {{{_READ}}}}}",
    "bench produce": f"{{{_BENCH}, {_SENT}, log_growth: int?}}",
    "client-metrics describe": "[{name: str, *: str?}]",
    "client-metrics list": "[{name: str}]",
    "cluster api-versions": "[{node: int, api: str?, key: int, min_version: int, max_version: int,"
    " usable: int?}]",
    "cluster endpoints": "[{id: int, role: str, host: str, port: int, rack: str?, state: str?}]",
    "cluster id": "{cluster_id: str}",
    "config alter": "[{resource: str, state: str}]",
    "config describe": "[{resource: str, key: str, value: str, source: str, is_default: bool,"
    " is_read_only: bool, is_sensitive: bool, type: str,"
    " synonyms: [{key: str, value: str, source: str}], doc: str}]",
    "config keys": "[{part: str, key: str, default: str, unit: str?, range: str, live: bool, doc: str}]",
    "debug bundle": "{...}",
    "doctor": "{ok: bool, counts: {error: int, warning: int, info: int}, findings: [{check: str,"
    " severity: str, where: str, problem: str, fix: str, ...}], machines: [{name: str, ...}],"
    " cluster: {...}?, advertised: [any], configs: [{path: str, role: str, name: str, mistakes: [{kind: str,"
    " key: str, problem: str, fix: str}], is_running: bool, ...}], ...}",
    "down": "{...}",
    "feature list": "[{feature: str, level: int, min_level: int, max_level: int}]",
    "feature upgrade": "[{feature: str, from: int, to: int}]",
    "feature versions": "[{feature: str, min_level: int, max_level: int}]",
    "group delete-offsets": "[{group: str, topic: str, partition: int}]",
    "group describe": "[{group: str, type: str, state: str, assignor: str?, coordinator: int, members: int,"
    f" lag: int, seconds: num, partitions: {_LAGS}, topology?: any}}]",
    "group list": "[{group: str, type: str, state: str, protocol: str?}]",
    "group members": "[{group: str, member: str, instance: str?, client: str, host: str, epoch: int?,"
    " partitions: int, assignment: [str], target: [str]}]",
    "group reset": _RESET,
    "group tasks": "[{group: str, task: str, role: str?, target: str?, member: str, process: str,"
    " client: str, host: str}]",
    "group validate-regex": "{expression: str, topics: [str]?}",
    "kafka-tools": "[{tool: str, options: str, kafka: str, command: str?, remark: str?, headrace: str}]",
    "lag": "[{group: str, type: str, state: str, members: int, lag: int?, seconds: num?,"
    f" partitions: {_LAGS}}}]",
    "log dirs": "[{node: int, log_dir: str, state: str, replicas: int, size: int, usable: int, total: int,"
    " cordoned: bool, detail?: str} | {node: int, log_dir: str, topic: str, partition: int, size: int,"
    " offset_lag: int, future: bool}]",
    "log dump": "[{file?: str, kind: str, ...}]",
    "metadata cat": "any",
    "metadata find": _ENTRIES,
    "metadata log": "[{offset: int, epoch: int, type: str, ...}]",
    "metadata ls": _ENTRIES,
    "metadata tree": _ENTRIES,
    "namespace describe": f"{{{_NAMESPACE}, within: [any]}}",
    "namespace list": f"[{{{_NAMESPACE}}}]",
    "node drain": "{node_id: int, state: str, leaders_left?: int, below_min_isr?: int}",
    "node list": "[{node_id: int, endpoint: str, rack: str?, state: str, leaders: int, partitions: int}]",
    "node remove": "{...}",  # the plan, or the result
    "partition elect": "[{topic: str, partition: int, result: str}]",
    "partition move-dir": "[{topic: str, partition: int, node: int, log_dir: str}]",
    "partition reassign": f"[{{topic: str, partition: int, ...}}] | {_PLAN}",
    "partition recover": "{partitions: [any], ...}",
    "partition verify": "[{topic: str, partition: int, state: str, replicas: [int], start: int?, end: int?,"
    " compared_to: int?, batches: int, detail: str?}]",
    "produce": "{topic: str, sent: int, failed: int}",
    "quickstart": "{...}",
    "quorum status": "{leader_id: int, leader_epoch: int, high_watermark: int, max_follower_lag: int,"
    f" voters: [{_CONTROLLER}], observers: [{_CONTROLLER}]}}",
    "quota describe": "[{entity: str, quota: str, value: num}]",
    "role describe": "{role: str, members: [str], rules: [any], namespaces: [str]}",
    "role list": "[{role: str, members: [str]}]",
    "security ray-env": "{*: str}",
    "security status": "{...}",
    "server status": "{...}",
    "status": "{state: str, ...}",
    "storage format": _STORAGE,
    "storage info": _STORAGE,
    "stream describe": "{...}",
    "stream diff": "{...}",
    "stream query": "any",
    "stream reset": _RESET,
    "stream run": "{...}",
    "stream status": "{...}",
    "stream top": "{...}",
    "token create": _ISSUED,
    "token list": f"[{_ISSUED}]",
    "topic create": "[{topic: str, partitions: int, replication_factor: int, id: str?}]",
    "topic delete-records": "[{topic: str, partition: int, low_watermark: int}]",
    "topic describe": "[{topic: str, id: str, partitions: [{partition: int, leader: int?, leader_epoch: int,"
    " partition_epoch: int, replicas: [int], isr: [int], elr: [int], last_known_elr: [int],"
    " adding_replicas: [int], removing_replicas: [int], offline_replicas: [int], beginning: int?, end: int?,"
    " records: int?}], configs: {*: str?}}]",
    "topic list": "[{topic: str, partitions: int, id: str}]",
    "topic offsets": "[{topic: str, partition: int, offset: int?, timestamp: int?, leader_epoch: int?}]",
    "txn describe": f"[{{{_TXN}, producer_epoch: int, timeout_ms: int, start: str?, partitions: [str]}}]",
    "txn find-hanging": f"[{{{_PRODUCER}, transactional_id: str?}}]",
    "txn list": f"[{{{_TXN}}}]",
    "txn producers": f"[{{{_PRODUCER}}}]",
    "up": "{...}",
    "user list": "[{user: str, mechanism: str, iterations: int}]",
    "version": "{python: str, headrace: str, ray: str, pyzmq: str, msgspec: str, codec: str, *: str}",
}
