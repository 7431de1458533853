"""The language of cases: one JSON object that both programs understand.

    {"seed": 7, "hostile": false, "pair": ["filter", "count"], "config": {}, "nodes": [...], "events": [...]}

`hostile`: with wrong serdes, damaged bytes, functions that fail. `config`: keys of Kafka Streams with
values as text. `nodes`, in the order in which they are built: each has `id`, `op`, perhaps `name`, and by
`op` (of streams, unless tables are named):

| op | fields |
|---|---|
| stream | topics or pattern, key, value, reset, shift (ms that its timestamp extractor adds) |
| table, global_table | topic, key, value, store |
| filter, filter_not (table too) | input, f (predicate); of a table: store |
| map, flat_map | input, key_f, value_f; flat_map: count |
| map_values (table too), flat_map_values | input, value_f, with_key; flat: count; of a table: store |
| select_key | input, key_f |
| peek, foreach | input |
| merge | input, other |
| split | input, branches: [{f, name}], default; the branches' ids are ID.0, ID.1 ... |
| repartition | input, key, value, partitions, keeps |
| to | input, topic, or topics: two, by parity of the value; key, value, keeps (by its partitioner) |
| to_table | input, store |
| process, process_values | input, processor (see behaviours.py), uses, provides, punctuate |
| group_by_key, group_by (table too) | input, key_f, key, value; of a table: value_f |
| cogroup | input: a grouped or cogrouped stream, f (aggregator); of a cogrouped one: other |
| window | input: (co)grouped, kind (tumbling, sliding, session, unlimited), size, advance, grace, start |
| count, reduce, aggregate | input: grouped or windowed, f, initial, subtract_f, merge_f, on_close, store |
| transform_values | input: a table, value_f or uses, store |
| to_stream | input: a table, key_f |
| suppress | input: a table, until_ms (or until windows close), max_records, max_bytes, shut_down, logged |
| join, left_join, outer_join | input, other, f (joiner), with_key |
| - of two streams | before, after, grace, key, value, other_value, store_name, logged, type, left_store ... |
| - with a table | grace, key, value, other_value |
| - with a global table | key_f |
| - of two tables | store |
| foreign_join, left_foreign_join | input, other: tables; key_f, f, with_key, store |
| print | input, label, value_f (the text of a record) |
| global_store | topic, key, value, shift, uses, value_f (of what it keeps) |

Of the Processor API, added to the topology that the others made, with their ids as names:

| op | fields |
|---|---|
| add_source | topics or pattern, key, value, shift, reset |
| add_processor | parents, processor, uses, adds, punctuate, children |
| add_sink | parents, topic or topics, key, value, keeps |
| add_global_store, add_read_only_store | as global_store |

`adds`: how the store of a processor comes in (provided, given, added, connected); absent: another one did.
A processor `looks_up` the name of a store that another one fills; `connects`: it has to connect with it.

Functions (`f`, `key_f`, `value_f` ...) are names of functions.py. Serdes: string, long, time:string:SIZE,
session:string. Durations are ms. A field that is absent is not given in the program either. `store` (Java's
Materialized) and `uses` (the store of a processor): name, supplier (memory, persistent, timestamped, lru,
versioned, headers), type (memory, rocksdb), key, value, cached, logged, retention, history; `uses` with kind
(kv, timestamped, versioned, window, session, headers, window_headers, session_headers), size, duplicates.

`events`: {"topic", "key", "value" (hex or null), "timestamp", "headers": [[name, hex]]} or {"advance_ms"}.

A result of either program: describe (text); records: [event, topic, key, value, timestamp, headers] of
every topic that was written to, changelogs and repartition topics too; stores: name -> rows; effects: what
functions saw; printed: id -> lines; dropped: number of skipped records; error:
{"place": build, start, "event N" or close}.
"""

from __future__ import annotations

import json
from typing import Any

Case = dict[str, Any]
Node = dict[str, Any]
Result = dict[str, Any]

SOURCES = ("stream", "table", "global_table", "global_store")
SOURCES += ("add_source", "add_global_store", "add_read_only_store")


def printed(case: Case) -> str:
    """A case as lines that a person can read, and a program too: valid JSON."""
    rows = ",\n ".join(json.dumps(node) for node in case["nodes"])
    events = ",\n ".join(json.dumps(event) for event in case["events"])
    head = json.dumps({name: value for name, value in case.items() if name not in {"nodes", "events"}})
    return f'{head[:-1]},\n"nodes": [\n {rows}],\n"events": [\n {events}]}}'


def inputs(node: Node) -> list[str]:
    """The ids that a node reads."""
    return [*(node[name] for name in ("input", "other") if name in node), *node.get("parents", ())]


def topics(node: Node) -> list[str]:
    """The topics that a source reads."""
    if node["op"] not in SOURCES:
        return []
    return list(node.get("topics", ())) + [node[name] for name in ("topic", "pattern") if name in node]
