"""Options of Kafka's tools that send and read records, measure and verify. See `kafka_options`. Pure."""

from __future__ import annotations

PERF = """
--print-metrics: ! clients send their metrics by OpenTelemetry: docs/METRICS.md
--reporting-interval V:
--hide-header:
--show-detailed-stats:
"""

RECORD_OPTIONS: dict[str, str] = {
    "kafka-console-producer": """
[] produce
--topic V: {}
--sync: -X max.in.flight.requests.per.connection=1
--compression-codec V?: -z {codec}
--batch-size V: -X batch.size={}
--max-partition-memory-bytes V: -X batch.size={}
--timeout V: -X linger.ms={}
--line-reader V: ! there are no plug-ins: -K, -k, -D, -H and -Z describe the records
--reader-config V: ! there are no plug-ins: -K, -k, -D, -H and -Z describe the records
--reader-property V: {reader}
--property V: {reader}
--producer-property V: -X {}
--command-property V: -X {}
--producer.config V: --command-config {}
--request-required-acks V: -X acks={}
--message-send-max-retries V: -X retries={}
--retry-backoff-ms V: -X retry.backoff.ms={}
--max-block-ms V: -X max.block.ms={}
--max-memory-bytes V: -X buffer.memory={}
--metadata-expiry-ms V: -X metadata.max.age.ms={}
--request-timeout-ms V: -X request.timeout.ms={}
--socket-buffer-size V: -X send.buffer.bytes={}
""",
    "kafka-console-consumer": """
--topic V: {}
--include V: --include {}
--whitelist V: --include {}
--partition V: -p {}
--max-messages V: -c {}
--timeout-ms V: --timeout {seconds}
--group V: -g {}
--formatter V: ! there are no formatter classes: -f has the format of a record, -o json all of it
--formatter-config V: ! there are no formatter classes: -f has the format of a record, -o json all of it
--formatter-property V: {formatter}
--property V: {formatter}
--consumer-property V: -X {}
--command-property V: -X {}
--consumer.config V: --command-config {}
--isolation-level V: -X isolation.level={}
--skip-message-on-error:
--enable-systest-events: ! `headrace verifiable consume` prints events
--key-deserializer V: ! bytes are printed as text, with -o json as base64 if they are not UTF-8
--value-deserializer V: ! bytes are printed as text, with -o json as base64 if they are not UTF-8
[--offset] consume
--offset V: -o {offset}
[--from-beginning] consume
--from-beginning:
[] consume -o end
""",
    "kafka-verifiable-producer": """
[] verifiable produce
--topic V: {}
--max-messages V: --max-messages {}
--throughput V: {throughput}
--acks V: --acks {}
--value-prefix V: --value-prefix {}
--repeating-keys V: --repeating-keys {}
--message-create-time V: --message-create-time {}
--broker-list V: -b {}
""",
    "kafka-verifiable-consumer": """
[] verifiable consume
--topic V: {}
--group-id V: --group-id {}
--group-instance-id V: --group-instance-id {}
--group-protocol V: --group-protocol {}
--max-messages V: --max-messages {}
--session-timeout V: --session-timeout {}
--reset-policy V: --reset-policy {}
--enable-autocommit: --enable-autocommit
--verbose: -v
--assignment-strategy V: -X partition.assignment.strategy={}
--group-remote-assignor V: -X group.remote.assignor={}
--broker-list V: -b {}
""",
    "kafka-producer-perf-test": PERF
    + """
[] bench produce
--topic V: --topic {}
--num-records V: --records {}
--record-size V: --record-size {}
--throughput V: {throughput}
--payload-file V: --payload-file {}
--payload-delimiter V: ! the lines of the file are the records
--payload-monotonic: ! values are random; --payload chooses their kind
--producer-props V+: -X {}
--command-property V+: -X {}
--producer.config V: --command-config {}
--warmup-records V: --warmup-records {}
--transactional-id V: ! `headrace bench produce` has no transactions
--transaction-duration-ms V: ! `headrace bench produce` has no transactions
""",
    "kafka-consumer-perf-test": PERF
    + """
[] bench consume
--topic V: --topic {}
--include V: ! `headrace bench consume` reads one topic
--num-records V: --records {}
--messages V: --records {}
--group V: -X client.id={}
--from-latest: --from end
--fetch-size V: -X max.partition.fetch.bytes={}
--socket-buffer-size V: -X receive.buffer.bytes={}
--timeout V: --timeout {seconds}
--command-property V+: -X {}
--consumer.config V: --command-config {}
--date-format V:
""",
    "kafka-e2e-latency": """
[] bench latency
--topic V: --topic {}
--num-records V: --records {}
--record-size V: --record-size {}
--producer-acks V: --acks {}
--record-key-size V: --keys 1 --key-size {}
--num-headers V: ! the records have no headers
--record-header-key-size V: ! the records have no headers
--record-header-size V: ! the records have no headers
""",
    "kafka-replica-verification": """
--broker-list V: -b {}
--report-interval-ms V:
--fetch-size V:
--max-wait-ms V:
--time V:
[--topics-include] partition verify
--topics-include V: --include {}
[--topic-white-list] partition verify
--topic-white-list V: --include {}
[] partition verify --all
""",
    "kafka-get-offsets": """
[] topic offsets
--topic V: {}
--topic-partitions V: {places}
--partitions V: ! name them with the topic: --topic-partitions T:0,T:1
--time V: --time {}
--exclude-internal-topics:
--broker-list V: -b {}
""",
    "kafka-delete-records": """
[] topic delete-records --yes
--offset-json-file V: --offset-json-file {}
""",
}
