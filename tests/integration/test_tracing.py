"""One trace from the producer over the replicas to the commit, with all clients and with Kafka's."""

import asyncio
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headrace
import pyarrow
import pytest
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import Producer as KafkaProducer
from headrace import aio, stream, utf8
from headrace.clients.ray_data import writing_io as writing
from headrace.services.local_io import LocalCluster
from headrace.storage_node.replica.appending import LeaderAppender
from opentelemetry.trace import SpanKind, get_current_span
from spans import application_tracer, is_connected, spans_of, trace_id_in, wait_for_spans
from waiting import wait_for

EARLIEST = {"auto_offset_reset": "earliest", "enable_tracing": True}
BAD_CONTEXTS = (
    b"",
    b"garbage",
    b"00-" + b"0" * 32 + b"-00f067aa0ba902b7-01",
    b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
    b"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    b"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
    b"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-" + b"x" * 100_000,
    "00-4bf92f3577b34da6a3ce929d0e0e47é6-00f067aa0ba902b7-01".encode(),
    b"\xff\xfe",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three nodes; each record is acknowledged by all of them."""
    application_tracer()  # the provider comes before the servers
    config = {"enable.tracing": True, "min.insync.replicas": 3, "listeners": "PLAINTEXT://127.0.0.1:0"}
    with headrace.local(nodes=3, **config) as running:
        yield running


def new_topic(cluster: LocalCluster, name: str) -> str:
    topic = headrace.NewTopic(name, partitions=1, replication_factor=3)
    with cluster.admin() as admin:
        admin.create_topics(topic).raise_for_errors()
    return name


def names_of(span: Any) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_one_record_is_one_connected_trace(cluster: LocalCluster) -> None:
    """send, append, replicate on both followers, fetch, poll, process, commit: all below one root."""
    new_topic(cluster, "orders")
    with cluster.producer(enable_tracing=True, client_id="shop") as producer:
        sent = producer.send("orders", b"a", key=b"secret").result(30)
    with cluster.consumer("orders", group="billing", enable_auto_commit=False, **EARLIEST) as consumer:
        record = next(iter(consumer))
        trace_id = trace_id_in(record.headers)
        consumer.commit()
    found = wait_for_spans(
        trace_id,
        *(f"{name} orders" for name in ("send", "append", "replicate", "fetch", "poll", "process", "commit")),
    )
    wait_for(lambda: len(spans_of(trace_id)) == 8, "two followers", evidence=lambda: repr(spans_of(trace_id)))
    assert is_connected(spans_of(trace_id))
    (send,) = found["send orders"]
    assert send.kind is SpanKind.PRODUCER
    assert names_of(send) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.client.id": "shop",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": sent.offset,
        "messaging.message.body.size": 1,
    }
    leader = names_of(found["append orders"][0])["headrace.node.id"]
    followers = {names_of(span)["headrace.node.id"] for span in wait_for_spans(trace_id)["replicate orders"]}
    assert followers == {1, 2, 3} - {leader}
    assert names_of(found["process orders"][0])["messaging.consumer.group.name"] == "billing"
    for name in ("poll orders", "commit orders"):
        assert [link.context.span_id for link in found[name][0].links] == [send.context.span_id]
    assert not any("secret" in repr(names_of(span)) for span in spans_of(trace_id))


def test_processing_is_the_parent_of_what_it_sends(cluster: LocalCluster) -> None:
    """The body of a loop over records, and `process_span` after `poll`: both by the asyncio clients, too."""
    new_topic(cluster, "steps")
    with cluster.producer(enable_tracing=True) as producer:
        with application_tracer().start_as_current_span("request") as request:
            producer.send("steps", b"0").result(30)
        with cluster.consumer("steps", **EARLIEST) as consumer:
            for _ in consumer:
                assert get_current_span().name == "process steps"
                producer.send("steps", b"1").result(30)
                break
        assert not get_current_span().get_span_context().is_valid

    async def next_steps() -> None:
        async with (
            aio.AsyncProducer(cluster.bootstrap, enable_tracing=True) as later,
            aio.AsyncConsumer("steps", bootstrap=cluster.bootstrap, **EARLIEST) as consumer,
        ):
            records: list[Any] = []
            while len(records) < 2:
                records += await consumer.poll(30)
            with consumer.process_span(records[1]):
                await later.send("steps", b"2")
            await later.send_many("steps", [b"unrelated", b"more"])

    asyncio.run(next_steps())
    trace_id = request.get_span_context().trace_id
    wait_for(lambda: len(wait_for_spans(trace_id)["send steps"]) == 3, "three sends")
    assert is_connected(spans_of(trace_id))
    assert len(wait_for_spans(trace_id)["process steps"]) == 2


def test_transaction_is_in_the_trace_of_its_records(cluster: LocalCluster) -> None:
    """Its commit is a span."""
    new_topic(cluster, "ledger")
    producer = cluster.producer(enable_tracing=True, transactional_id="t")
    with producer, producer.transaction() as transaction:
        transaction.send("ledger", b"x")
    with cluster.consumer("ledger", isolation_level="read_committed", **EARLIEST) as consumer:
        trace_id = trace_id_in(next(iter(consumer)).headers)
    found = wait_for_spans(trace_id, "send ledger", "append ledger", "commit")
    assert [link.context for link in found["commit"][0].links] == [found["send ledger"][0].context]


def test_contexts_of_kafka_clients_go_on_here(cluster: LocalCluster) -> None:
    """Headers as the OpenTelemetry instrumentation of confluent-kafka writes them; and the other direction.
    Invalid ones are ignored everywhere."""
    new_topic(cluster, "mixed")
    trace_id, span_id = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
    kafka = KafkaProducer({"bootstrap.servers": cluster.kafka_bootstrap, "linger.ms": 0})
    kafka.produce(
        "mixed", b"good", headers=[("traceparent", f"00-{trace_id:032x}-{span_id:016x}-01".encode())]
    )
    for bad in BAD_CONTEXTS:
        kafka.produce("mixed", b"bad", headers=[("traceparent", bad)])
    assert kafka.flush(30) == 0
    count = 1 + len(BAD_CONTEXTS)
    with cluster.consumer("mixed", **EARLIEST) as consumer:
        for number, record in enumerate(consumer, 1):
            is_traced = get_current_span().get_span_context().is_valid
            assert is_traced == (record.value == b"good")
            if number == count:
                break
    found = wait_for_spans(trace_id, "append mixed", "replicate mixed", "fetch mixed", "process mixed")
    parents = {span.parent.span_id for spans in found.values() for span in spans if span.parent is not None}
    assert parents == {span_id}

    with cluster.producer(enable_tracing=True) as producer:
        for bad in BAD_CONTEXTS:  # given by the application: they stay, without a span
            producer.send("mixed", b"bad", headers={"traceparent": bad}).result(30)
        with application_tracer().start_as_current_span("root") as root:
            producer.send("mixed", b"back").result(30)
    reader = KafkaConsumer(
        {"bootstrap.servers": cluster.kafka_bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    reader.subscribe(["mixed"])
    got: list[Any] = []

    def has_last() -> bool:
        message = reader.poll(1)
        if message is not None:
            got.append(message)
        return bool(got) and got[-1].value() == b"back"

    wait_for(has_last, "the record of headrace's producer")
    reader.close()
    assert len(got) == 2 * count
    assert trace_id_in(got[-1].headers()) == root.get_span_context().trace_id
    assert [message.headers() for message in got[count:-1]] == [
        [("traceparent", bad)] for bad in BAD_CONTEXTS
    ]


def test_streams_process_in_the_trace_of_their_input(cluster: LocalCluster, tmp_path: Path) -> None:
    """With exactly-once: the input, output from inside the span and from a cache, and the transaction."""
    for topic in ("words", "copies", "counts"):
        new_topic(cluster, topic)
    options = {
        "state_dir": str(tmp_path),
        "commit_interval_ms": 100,
        "processing_guarantee": "exactly_once_v2",
    }
    app = stream.App("counter", key=utf8, value=utf8, enable_tracing=True, replication_factor=3, **options)
    seen: list[Any] = []
    words = app.stream("words").peek(lambda key, value: seen.append(get_current_span().is_recording()))
    words.to("copies")
    words.group_by_key().count(store="n").to_stream().map_values(str).to("counts")
    with cluster.producer(enable_tracing=True) as producer:
        with application_tracer().start_as_current_span("request") as request:
            producer.send("words", b"x", key=b"k").result(30)
        with app.instance(cluster.bootstrap), cluster.consumer("counts", **EARLIEST) as consumer:
            record = next(iter(consumer))
    trace_id = request.get_span_context().trace_id
    assert trace_id_in(record.headers) == trace_id
    assert [name for name, _ in record.headers].count("traceparent") == 1
    found = wait_for_spans(trace_id, "process words", "send copies", "send counts", "commit")
    assert found["send copies"][0].parent == found["process words"][0].context
    links = {link.context.span_id for link in found["commit"][0].links}
    assert links > {found[name][0].context.span_id for name in ("send copies", "send counts")}
    assert is_connected(spans_of(trace_id))
    assert seen == [True]


def test_ray_tasks_write_below_the_span_of_the_driver(cluster: LocalCluster) -> None:
    """The datasink carries the context to the process of the task."""
    new_topic(cluster, "sink")
    options = writing.checked_options("sink", cluster.bootstrap, {"kafka.enable.tracing": "true"})
    with application_tracer().start_as_current_span("job") as job:
        pickled = pickle.dumps(writing.TopicDatasink(options))
    task = pickle.loads(pickled)
    task.write([pyarrow.table({"value": [b"a", b"b"]})], None)
    found = wait_for_spans(job.get_span_context().trace_id, "send sink")
    assert found["send sink"][0].parent.span_id == job.get_span_context().span_id
    assert not get_current_span().get_span_context().is_valid


def test_tables_have_a_poll_span_with_links(cluster: LocalCluster) -> None:
    """A span for each table, with links to its sampled records; these count as delivered, so the commit has
    links to them, too. Columns that were not asked for are not there. Below a span of the application the
    span is its child."""
    new_topic(cluster, "columns")
    with cluster.producer(enable_tracing=True, linger_ms=50) as producer:
        with application_tracer().start_as_current_span("sampled") as span:
            sent = [producer.send("columns", b"a", key=b"k") for _ in range(3)]
        for each in sent:
            each.result(30)
    trace_id = span.get_span_context().trace_id
    with cluster.consumer("columns", group="tables", enable_auto_commit=False, **EARLIEST) as consumer:
        rows = 0
        for table in consumer.arrow_batches(max_rows=3, timeout=5, columns=["value"]):
            assert table.schema.names == ["value"]
            rows += table.num_rows
            if rows == 3:
                break
        consumer.commit()
    found = wait_for_spans(trace_id, "poll columns", "commit columns")
    sends = {each.context.span_id for each in spans_of(trace_id) if each.name == "send columns"}
    assert {link.context.span_id for each in found["poll columns"] for link in each.links} == sends
    assert {link.context.span_id for link in found["commit columns"][0].links} == sends
    assert sum(names_of(each)["messaging.batch.message_count"] for each in found["poll columns"]) == 3
    with (
        application_tracer().start_as_current_span("report") as report,
        cluster.consumer(**EARLIEST) as consumer,
    ):
        consumer.assign(headrace.TopicPartition("columns", 0))
        assert consumer.poll_arrow(30).num_rows > 0
    below = wait_for_spans(report.get_span_context().trace_id, "poll columns")["poll columns"][0]
    assert below.parent.span_id == report.get_span_context().span_id
    assert {link.context.span_id for link in below.links} <= sends


def test_log_lines_of_a_request_have_the_ids_of_its_record(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of native and of Kafka's clients, for lines that are written while the request is handled."""
    new_topic(cluster, "logged")
    lines: list[Any] = []
    handler = logging.Handler()
    handler.addFilter(headrace.TraceIds())
    monkeypatch.setattr(handler, "emit", lines.append)
    logger = logging.getLogger("headrace.test_requests")
    logger.addHandler(handler)
    append = LeaderAppender.append

    def logging_append(self: Any, partition: Any, *args: Any, **more: Any) -> Any:
        if partition.topic_partition.topic == "logged":
            logger.warning("an append")
        return append(self, partition, *args, **more)

    monkeypatch.setattr(LeaderAppender, "append", logging_append)
    try:
        with (
            application_tracer().start_as_current_span("native") as native,
            cluster.producer(enable_tracing=True) as producer,
        ):
            producer.send("logged", b"a").result(30)
        kafka = KafkaProducer({"bootstrap.servers": cluster.kafka_bootstrap, "linger.ms": 0})
        for context in ("00-" + "1" * 32 + "-" + "2" * 16 + "-01", "garbage"):
            kafka.produce("logged", b"b", headers=[("traceparent", context.encode())])
            assert kafka.flush(30) == 0
    finally:
        logger.removeHandler(handler)
    assert [line.trace_id for line in lines] == [
        f"{native.get_span_context().trace_id:032x}",
        "1" * 32,
        "",
    ]
