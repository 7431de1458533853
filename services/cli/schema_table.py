"""The JSON that each command prints with -o json, in a short notation (`schema.py` reads it). Pure.

A command with -o json must be in this table: tests validate what commands print against it. `name: type` in
braces is an object with these keys only, `name?` may be missing, `*: type` is any other key.
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

_DIR_MOVE = "{topic: str, partition: int, node: int, from: str, to: str, bytes: int}"
_PLANNED = (
    "{moves: [{topic: str, partition: int, from: [int], to: [int], copies: int, goal: str}],"
    f" dir_moves: [{_DIR_MOVE}], copied_bytes: int, expected_s: num?,"
    " goals: [{goal: str, before: num, after: num, unit: str, smallest?: num, mean?: num, largest?: num}],"
    " stuck: {*: str}}"
)
_TOPOLOGY = (
    "[{sub_topology: str | int, is_global: bool, name: str, kind: str, topics: [str],"
    " chosen_by: str, stores: [str], successors: [str], predecessors: [str]}]"
)
_LOST = (
    "{node: int, state: str, start: int?, end: int?, high_watermark: int?, epoch: int?,"
    " last_timestamp_ms: int?, size_bytes: int?, diverges_at: int?, lost: int?, lost_committed: int?,"
    " recommended: bool}"
)
_LEADERLESS = (
    "{topic: str, partition: int, leader_epoch: int, isr: [int], elr: [int], last_known_leader: [int],"
    f" recommended: int?, silent: [int], replicas: [{_LOST}]}}"
)
_FINDING = "{check: str, severity: str, where: str, problem: str, fix: str}"
_DISK = (
    "{path: str, mount_point: str, device: str, kind: str, options: [str], total_bytes: int,"
    " free_bytes: int, inodes: int, free_inodes: int, write_cache: str, is_rotational: bool?,"
    " fsync_ms: [num], trouble: str}"
)
_MACHINE = (
    "{name: str, address: str, limits: {*: int},"
    f" disks: [{_DISK}], clock: {{is_synchronised: bool?, max_error_s: num, source: str, skew_s: num?,"
    " skew_error_s: num}, memory: {*: num}, kernel: {release: str, sysctls: {*: str}, huge_pages: str,"
    " governors: [str], cpus: int}, versions: {python: str, headrace: str, libraries: {*: str}, libzmq: str,"
    " has_curve: bool, codec: str, compiled: int, interpreted: int, java: str},"
    " ports: [{host: str, port: int, state: str, owner: str, detail: str}],"
    " reach: [{address: str, error: str, ms: num}], secrets: [{path: str, mode: int}],"
    " certificates: [{path: str, subject: str, days_left: num}],"
    " ray: {niceness: int?, gcs_storage: str?, auth_mode: str}?}"
)
_CONFIG_FILE = (
    "{path: str, role: str, name: str, server_id: int,"
    " mistakes: [{kind: str, key: str, problem: str, fix: str}], data_dirs: [str],"
    " listeners: [{key: str, host: str, port: int}], hosts: {*: str}, controllers: [str],"
    " memory_bytes: {*: int}, replication: {*: int}, owners: {*: int},"
    " reach: [{address: str, error: str, ms: num}], secrets: [{path: str, mode: int}],"
    " certificates: [{path: str, subject: str, days_left: num}], key_faults: [str], is_running: bool}"
)
_CHECKED_CLUSTER = (
    "{cluster_id: str, nodes: {*: str}, fenced: [int], shutting_down: [int], leader_id: int, voters: [int],"
    " voters_behind: [int], topics: [{topic: str, partitions: int, replication_factor: int,"
    " min_in_sync: int, under_replicated: int, below_min: int, offline: int, is_internal: bool}],"
    " offline_dirs: [str], full_dirs: [str], troubles: [str]}"
)
_TASK = (
    "{task: str, role: str, state: str?, lag: int?, lag_ms: int?, records: int?, records_per_s: num?,"
    " remaining: int?, eta_ms: int?,"
    " stores: [{name: str, entries: int?, size_bytes: int?, remaining: int?}]}"
)
_APPLICATION = (
    "application: str, state: str, group_epoch: int, topology_epoch: int, lag: int?, lag_ms: int?,"
    " records_per_s: num?, unassigned: [str], instances: [{process: str, host: str, endpoint: str?,"
    " state: str?, problem: str?, threads: [{name: str, member: str, state: str?, topology_epoch: int,"
    f" process_ratio: num?, poll_ratio: num?, commit_ratio: num?, tasks: [{_TASK}]}}],"
    " operators: [{name: str, sub_topology: int, share: num}]}]"
)
_NODE = "{node_id: int, endpoint: str, rack: str?, state: str, leaders: int, partitions: int}"
_SERVER = "{state: str, *: any}"  # the facts and metrics of a process: docs/METRICS.md
_BY_CLIENTS = (
    "{cluster_id: str, state: str, controller_id: int, topics: int, partitions: int, offline_partitions: int,"
    f" nodes: [{_NODE}], prepared_transactions: int?}}"
)
_BY_RAY = (
    "{cluster: str, ray_address: str, ray_is_ours: bool, bootstrap: [str], data_dir: str, state: str,"
    f" controller: {_SERVER}?, controllers: [{_SERVER}], nodes: [{_SERVER}], prepared_transactions: int?}}"
)
_REASSIGNED = (
    "{topic: str, partition: int, replicas: [int], adding_replicas: [int], removing_replicas: [int],"
    " isr: [int]} | {topic: str, partition: int, state: str, replicas: [int]?, target: [int]}"
)

TABLE: dict[str, str] = {
    "acl delete": f"[{_RULE}]",
    "acl explain": "{allowed: bool, because: str, rule: str?}",
    "acl lint": "[{rule: str, reason: str, because_of: str?}]",
    "acl list": f"[{_RULE}]",
    "audit": "[{time: str, principal: str, host: str, api: str, operation: str, resource: str, result: str,"
    " count: int, rule: str, client_id: str?, mechanism: str?, node_id: int, missing: int}]",
    "balance": f"{_PLANNED} | {{cancelled: int}}",
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
    "debug bundle": "{file: str, files: int, bytes: int, missing: [str]}",
    "doctor": "{ok: bool, counts: {error: int, warning: int, info: int},"
    f" findings: [{_FINDING}], machines: [{_MACHINE}], cluster: {_CHECKED_CLUSTER}?,"
    " advertised: [{server: str, listener: str, address: str, resolved: [str], error: str}],"
    f" servers: [{{name: str, address: str, version: str}}], configs: [{_CONFIG_FILE}]}}",
    "down": "{cluster: str, state: str, troubles: [str]}",
    "feature list": "[{feature: str, level: int, min_level: int, max_level: int}]",
    "feature upgrade": "[{feature: str, from: int, to: int}]",
    "feature versions": "[{feature: str, min_level: int, max_level: int}]",
    "group delete-offsets": "[{group: str, topic: str, partition: int}]",
    "group describe": "[{group: str, type: str, state: str, assignor: str?, coordinator: int, members: int,"
    f" lag: int, seconds: num, partitions: {_LAGS}, topology?: {_TOPOLOGY}}}]",
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
    "namespace describe": f"{{{_NAMESPACE}, within: [str]}}",
    "namespace list": f"[{{{_NAMESPACE}}}]",
    "node drain": "{node_id: int, state: str, leaders_left?: int, below_min_isr?: int}",
    "node list": f"[{_NODE}]",
    "node remove": f"{_PLANNED} | {{node_id: int, state: str}}",
    "partition elect": "[{topic: str, partition: int, result: str}]",
    "partition move-dir": "[{topic: str, partition: int, node: int, log_dir: str}]",
    "partition reassign": f"[{_REASSIGNED}] | {_PLAN}",
    "partition recover": f"{{partitions: [{_LEADERLESS}]}}",
    "partition verify": "[{topic: str, partition: int, state: str, replicas: [int], start: int?, end: int?,"
    " compared_to: int?, batches: int, detail: str?}]",
    "produce": "{topic: str, sent: int, failed: int}",
    "quickstart": "{lines_in: int, lines_out: int, bytes_in: int, bytes_out: int, checksum_in: str,"
    " checksum_out: str,"
    " seconds_in: num, seconds_out: num, is_complete: bool, top_keys: [{key: str, lines: int}],"
    " partitions: [{partition: int, node: str, records: int, size_bytes: int, directory: str}]}",
    "quorum status": "{leader_id: int, leader_epoch: int, high_watermark: int, max_follower_lag: int,"
    f" voters: [{_CONTROLLER}], observers: [{_CONTROLLER}]}}",
    "quota describe": "[{entity: str, quota: str, value: num}]",
    "role describe": "{role: str, members: [str], rules: [str], namespaces: [str]}",
    "role list": "[{role: str, members: [str]}]",
    "security ray-env": "{*: str}",
    "security status": "[{what: str, fingerprint: str?, since: str?, until: str?, detail: str}]",
    "server status": _SERVER,
    "status": f"{_BY_RAY} | {_BY_CLIENTS}",
    "storage format": _STORAGE,
    "storage info": _STORAGE,
    "stream describe": _TOPOLOGY,
    "stream diff": "[{effect: str, text: str}]",
    "stream query": "any",
    "stream reset": _RESET,
    "stream run": "any",
    "stream status": f"{{{_APPLICATION}, topology?: {_TOPOLOGY}}}",
    "stream top": f"{{{_APPLICATION}}}",
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
    "up": "{cluster: str, nodes: int, controllers: int, bootstrap: str, data_dir: str, ray_address: str,"
    " *: str}",
    "user list": "[{user: str, mechanism: str, iterations: int}]",
    "version": "{python: str, headrace: str, ray: str, pyzmq: str, msgspec: str, codec: str, *: str}",
}
