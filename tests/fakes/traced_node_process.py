"""A process with a node that exports spans: `traced_node_process.py ENDPOINT PROTOCOL RECORDS`.

It sends records with sampled contexts and prints facts as JSON.
"""

import json
import sys
import time
from typing import Any

import headrace

QUEUE_SPANS = 50
CONTEXT = b"00-%032x-00f067aa0ba902b7-01"


def main(endpoint: str, protocol: str, count: int) -> None:
    config = {
        "enable.tracing": True,
        "otlp.endpoint": endpoint,
        "otlp.protocol": protocol,
        "tracing.queue.spans": QUEUE_SPANS,
    }
    with headrace.local(**config) as cluster:
        cluster.admin().create_topics(headrace.NewTopic("orders")).raise_for_errors()
        with cluster.producer(linger_ms=0) as producer:
            for number in range(1, count + 1):
                producer.send("orders", b"v", headers={"traceparent": CONTEXT % number})
                if number % 100 == 0:
                    producer.flush()
        spans: Any = cluster._cores._nodes[0]._spans
        (processor,) = spans._tracing._own._active_span_processor._span_processors
        waiting = len(processor._batch_processor._queue)
        began_at = time.monotonic()
    sys.stdout.write(json.dumps({"waiting": waiting, "close_s": time.monotonic() - began_at}))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
