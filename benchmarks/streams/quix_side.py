"""The applications of `make bench-streams` in Quix Streams; runs in an environment of its own, without
headrace. Orders on stdin as in `StreamsBench.java`; "running" is printed when it starts to read."""

import struct
import sys
import threading

from quixstreams import Application
from quixstreams.models.serializers import Deserializer, Serializer

LONG = struct.Struct(">q")


class LongDeserializer(Deserializer):
    """Java's LongDeserializer."""

    def __call__(self, value, ctx):
        return LONG.unpack(value)[0]


class LongSerializer(Serializer):
    """Java's LongSerializer."""

    def __call__(self, value, ctx):
        return LONG.pack(value)


def count(value, state):
    """The number of values of the key so far."""
    total = state.get("n", 0) + 1
    state.set("n", total)
    return total


def application(order):
    """The application of an order."""
    app = Application(
        broker_address=order["bootstrap"],
        consumer_group=order["application"],
        auto_offset_reset="earliest",
        commit_interval=int(order["commit"]) / 1000,
        state_dir=order["state"],
        processing_guarantee="exactly-once" if order["guarantee"] == "exactly_once_v2" else "at-least-once",
        producer_extra_config={"linger.ms": 100},
        loglevel="WARNING",
    )
    serdes = {"key_deserializer": "str", "value_deserializer": LongDeserializer()}
    records = app.dataframe(app.topic(order["input"], **serdes))
    output = app.topic(order["output"], key_serializer="str", value_serializer=LongSerializer())
    workload = order["workload"]
    if workload == "filter-map":
        found = records.filter(lambda value: value % 10 != 0).apply(lambda value: value * 2)
    elif workload == "count":
        found = records.apply(count, stateful=True)
    elif workload == "windowed-sum":
        found = records.tumbling_window(300_000).sum().current().apply(lambda window: window["value"])
    elif workload == "join":
        table = app.dataframe(app.topic(order["table"], **serdes))
        found = records.join_asof(table, on_merge=lambda value, row: value + row)
    else:
        raise ValueError(workload)
    found.to_topic(output)
    return app


def main():
    """Serve one order: a Quix application runs in the main thread."""
    print("ready", flush=True)
    order = dict(word.split("=", 1) for word in sys.stdin.readline().split())
    app = application(order)

    def wait() -> None:
        sys.stdin.readline()
        app.stop()

    threading.Thread(target=wait, daemon=True).start()
    print("running", flush=True)
    app.run()
    print("stopped", flush=True)


if __name__ == "__main__":
    main()
