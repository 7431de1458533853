"""An application's snapshot goes to S3 (moto's), and an instance on another disk begins with it."""

import logging
import os
import tempfile
import threading

import boto3
import headrace
from headrace import stream, utf8
from moto.server import ThreadedMotoServer

WAIT_S = 120
events = {"is stored": threading.Event(), "is loaded": threading.Event()}


class Watch(logging.Handler):
    """Sets the event of a message of the log."""

    def emit(self, record):
        for text, event in events.items():
            if text in record.getMessage():
                event.set()


logging.getLogger("headrace").setLevel(logging.INFO)
logging.getLogger("headrace").addHandler(Watch())
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
host, port = server.get_host_and_port()
endpoint = f"http://{host}:{port}"
os.environ |= {
    "AWS_ENDPOINT": endpoint,
    "AWS_ALLOW_HTTP": "true",
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
    "AWS_REGION": "us-east-1",
}
boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket="stores")

app = stream.App("count", key=utf8, value=utf8, commit_interval_ms=100)
app.stream("in").group_by_key().count(store="counts")
with headrace.local() as cluster, tempfile.TemporaryDirectory() as folder:
    cluster.admin().create_topics(headrace.NewTopic("in")).raise_for_errors()
    with cluster.producer(key=utf8, value=utf8) as producer:
        producer.send("in", "x", key="a").result(timeout=60)
    for disk, text in enumerate(events):
        config = {
            "state.dir": f"{folder}/{disk}",
            "snapshot.dir": "s3://stores/count",
            "snapshot.interval.ms": 100,
        }
        with app.instance(cluster.bootstrap, config=config):
            assert events[text].wait(WAIT_S), f"no snapshot {text}"
server.stop()
