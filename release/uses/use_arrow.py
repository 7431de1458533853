"""A table goes in, and a table comes out."""

import headrace
import pyarrow

with headrace.local() as cluster:
    cluster.admin().create_topics(headrace.NewTopic("t")).raise_for_errors()
    with cluster.producer() as producer:
        producer.send_arrow("t", pyarrow.table({"key": ["a", "b"], "value": [b"1", b"2"]}))
    with cluster.consumer("t", auto_offset_reset="earliest") as consumer:
        batch = next(iter(consumer.arrow_batches()))
        assert batch.column("value").to_pylist() == [b"1", b"2"], batch
