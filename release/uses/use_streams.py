"""An application counts in a store on disk, in RocksDB."""

import tempfile
from pathlib import Path

import headrace
from headrace import int64, stream, utf8

app = stream.App("count", key=utf8, value=utf8, commit_interval_ms=100)
app.stream("in").group_by_key().count(store="counts").to_stream().to("out", value=int64)
with headrace.local() as cluster, tempfile.TemporaryDirectory() as folder:
    cluster.admin().create_topics(headrace.NewTopic("in"), headrace.NewTopic("out")).raise_for_errors()
    with cluster.producer(key=utf8, value=utf8) as producer:
        producer.send("in", "x", key="a").result(timeout=60)
    with app.instance(cluster.bootstrap, config={"state.dir": folder}):
        with cluster.consumer("out", key=utf8, value=int64, auto_offset_reset="earliest") as consumer:
            record = next(iter(consumer))
            assert (record.key, record.value) == ("a", 1), record
        assert list(Path(folder).rglob("rocksdb/counts")), "the store is not in RocksDB"
