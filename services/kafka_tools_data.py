"""Rows of `headrace kafka-tools`, by tool: options of Kafka's tool, the command line here, a remark. Pure.

An empty command line: there is no equivalent, for the reason in the remark. Options that only name the
cluster (`--bootstrap-server`, `--command-config`) are the global options -b and --command-config.
"""

from __future__ import annotations

Use = tuple[str, str] | tuple[str, str, str]
Tools = dict[str, tuple[Use, ...]]

_SHARE = "share groups are not built yet"
_CONNECT = "there is no Kafka Connect; Ray Data, Spark and headrace.stream read and write topics"
_MIRROR = "there is no replication between clusters"

TOPIC_TOOLS: Tools = {
    "kafka-topics": (
        ("--list", "headrace topic list --internal"),
        ("--list --exclude-internal", "headrace topic list"),
        (
            "--create --topic T --partitions 6 --replication-factor 1",
            "headrace topic create payments -p 6 -r 1",
        ),
        ("--create --topic T --config K=V", "headrace topic create refunds -X retention.ms=3600000"),
        ("--create --topic T --if-not-exists", "headrace topic create orders --if-not-exists"),
        (
            "--create --topic T --replica-assignment 1:2,2:1",
            "headrace topic create placed --replica-assignment 1:2,2:1",
        ),
        ("--describe", "headrace topic describe --all"),
        ("--describe --topic T", "headrace topic describe orders"),
        ("--describe --topic-id ID", "headrace topic describe --id 00000000000000000000000000000001"),
        ("--describe --under-replicated-partitions", "headrace topic describe --under-replicated"),
        ("--describe --unavailable-partitions", "headrace topic describe --unavailable"),
        ("--describe --under-min-isr-partitions", "headrace topic describe --under-min-isr"),
        ("--describe --at-min-isr-partitions", "headrace topic describe --at-min-isr"),
        ("--describe --topics-with-overrides", "headrace topic describe --with-overrides"),
        ("--alter --topic T --partitions 8", "headrace topic add-partitions orders 8"),
        ("--delete --topic T", "headrace topic delete refunds --yes"),
        ("--delete --topic T --if-exists", "headrace topic delete refunds --if-exists --yes"),
    ),
    "kafka-configs": (
        ("--describe --entity-type topics --entity-name T", "headrace config describe --topic orders"),
        (
            "--describe --entity-type topics --entity-name T --all",
            "headrace config describe --topic orders --all",
        ),
        (
            "--alter --entity-type topics --entity-name T --add-config K=V",
            "headrace config alter --topic orders --set retention.ms=3600000",
        ),
        (
            "--alter --entity-type topics --entity-name T --add-config-file F",
            "headrace config alter --topic orders --set-file topic.properties",
        ),
        (
            "--alter --entity-type topics --entity-name T --delete-config K",
            "headrace config alter --topic orders --delete retention.ms",
        ),
        ("--describe --entity-type brokers --entity-name 1", "headrace config describe --node 1"),
        (
            "--alter --entity-type brokers --entity-name 1 --add-config K=V",
            "headrace config alter --node 1 --set log.cleaner.threads=2",
        ),
        (
            "--alter --entity-type brokers --entity-default --add-config K=V",
            "headrace config alter --cluster-wide --set log.retention.ms=86400000",
        ),
        ("--describe --entity-type broker-loggers --entity-name 1", "headrace config describe --loggers 1"),
        (
            "--alter --entity-type broker-loggers --entity-name 1 --add-config L=DEBUG",
            "headrace config alter --loggers 1 --set root=INFO",
        ),
        ("--describe --entity-type groups --entity-name G", "headrace config describe --group billing"),
        (
            "--alter --entity-type groups --entity-name G --add-config K=V",
            "headrace config alter --group billing --set consumer.session.timeout.ms=50000",
        ),
        ("--describe --entity-type client-metrics", "headrace client-metrics describe"),
        (
            "--alter --entity-type users --entity-name U --add-config producer_byte_rate=N",
            "headrace quota alter --user ann --set producer_byte_rate=1000000",
        ),
        (
            "--alter --entity-type users --entity-default --add-config request_percentage=N",
            "headrace quota alter --user-defaults --set request_percentage=200",
        ),
        (
            "--alter --entity-type clients --entity-name C --add-config consumer_byte_rate=N",
            "headrace quota alter --client etl --set consumer_byte_rate=1000000",
        ),
        (
            "--alter --entity-type ips --entity-name IP --add-config connection_creation_rate=N",
            "headrace quota alter --ip 127.0.0.9 --set connection_creation_rate=20",
        ),
        ("--describe --entity-type users --entity-type clients", "headrace quota describe"),
        (
            "--alter --entity-type users --entity-name U --add-config SCRAM-SHA-256=[password=…]",
            "headrace user create ann --password-stdin",
        ),
        ("--describe --entity-type users (SCRAM credentials)", "headrace user list"),
        (
            "--alter --entity-type users --entity-name U --delete-config SCRAM-SHA-256",
            "headrace user delete ann --mechanism SCRAM-SHA-256",
        ),
    ),
    "kafka-get-offsets": (
        ("--topic T --time -1 (latest)", "headrace topic offsets orders"),
        ("--topic T --time -2 (earliest)", "headrace topic offsets orders --time earliest"),
        ("--topic T --time -3 (max-timestamp)", "headrace topic offsets orders --time -3"),
        ("--topic T --time -4 (earliest-local)", "headrace topic offsets orders --time earliest-local"),
        ("--topic T --time -5 (latest-tiered)", "headrace topic offsets orders --time latest-tiered"),
        ("--topic T --time -6 (earliest-pending-upload)", "headrace topic offsets orders --time -6"),
        ("--topic T --time MS", "headrace topic offsets orders --time 1700000000000"),
        ("--topic-partitions T:0,T:1-2", "headrace topic offsets orders:0,1-2"),
        ("--exclude-internal-topics", "headrace topic offsets"),
    ),
    "kafka-delete-records": (
        ("--offset-json-file F", "headrace topic delete-records --offset-json-file offsets.json --yes"),
    ),
}

RECORD_TOOLS: Tools = {
    "kafka-console-producer": (
        ("--topic T", "headrace produce orders"),
        ("--topic T --property parse.key=true --property key.separator=:", "headrace produce orders -K :"),
        ("--topic T --compression-codec zstd", "headrace produce orders -z zstd"),
        (
            "--topic T --batch-size N --timeout MS",
            "headrace produce orders -X batch.size=65536 -X linger.ms=5",
        ),
        ("--topic T --producer-property acks=all", "headrace produce orders -X acks=all"),
        ("--topic T --sync", "headrace produce orders -X max.in.flight.requests.per.connection=1"),
        ("--topic T --line-reader CLASS", "", "no plug-ins: -K, -k, -D, -H and -Z describe the records"),
    ),
    "kafka-console-consumer": (
        ("--topic T --from-beginning --timeout-ms 1000", "headrace consume orders --timeout 1"),
        ("--topic T --partition 0 --offset 5 --max-messages 2", "headrace consume orders -p 0 -o 5 -c 2"),
        ("--topic T --group G", "headrace consume orders -g viewers -e"),
        ("--include REGEX", "headrace consume --include 'ord.*' -e"),
        ("--topic T --property print.key=true", "headrace consume orders -K : -e"),
        ("--topic T --formatter …", "headrace consume orders -f '%t %p %o %T %k %s %h\\n' -e"),
        (
            "--topic T --isolation-level read_committed",
            "headrace consume orders -X isolation.level=read_committed -e",
        ),
        (
            "--topic T --skip-message-on-error",
            "headrace consume orders -o jsonl -e",
            "bytes are never an error",
        ),
    ),
    "kafka-console-share-consumer": (("--topic T --group G", "", _SHARE),),
    "kafka-verifiable-producer": (
        (
            "--topic T --max-messages N --throughput M",
            "headrace verifiable produce orders --max-messages 20 --throughput 1000",
        ),
        (
            "--topic T --acks -1 --value-prefix P --repeating-keys K",
            "headrace verifiable produce orders --max-messages 10 --acks all --value-prefix 7"
            " --repeating-keys 5",
        ),
    ),
    "kafka-verifiable-consumer": (
        (
            "--topic T --group-id G --max-messages N --reset-policy earliest",
            "headrace verifiable consume orders --group-id verifier --max-messages 10 --reset-policy"
            " earliest",
        ),
        (
            "--topic T --group-id G --enable-autocommit --group-protocol consumer",
            "headrace verifiable consume orders --group-id verifier2 --max-messages 5"
            " --enable-autocommit --group-protocol consumer --reset-policy earliest",
        ),
    ),
    "kafka-verifiable-share-consumer": (("--topic T --group-id G", "", _SHARE),),
    "kafka-producer-perf-test": (
        (
            "--topic T --num-records N --record-size 100 --throughput -1",
            "headrace bench produce --topic orders --records 1000 --record-size 100",
        ),
        (
            "--topic T --num-records N --payload-file F",
            "headrace bench produce --topic orders --records 1000 --payload-file payload.txt",
        ),
        (
            "--topic T --num-records N --warmup-records M",
            "headrace bench produce --topic orders --records 1000 --warmup-records 100",
        ),
        (
            "--topic T --transactional-id X --transaction-duration-ms MS",
            "",
            "`bench produce` has no transactions",
        ),
    ),
    "kafka-consumer-perf-test": (
        ("--topic T --num-records N", "headrace bench consume --topic orders --records 1000"),
    ),
    "kafka-share-consumer-perf-test": (("--topic T --num-records N", "", _SHARE),),
    "kafka-e2e-latency": (
        ("BROKER T N acks SIZE", "headrace bench latency --topic orders --records 200 --record-size 100"),
    ),
}

GROUP_TOOLS: Tools = {
    "kafka-consumer-groups": (
        ("--list", "headrace group list"),
        ("--list --state Stable,Empty", "headrace group list --state Stable --state Empty"),
        ("--list --type consumer", "headrace group list --type consumer"),
        ("--describe --group G --offsets", "headrace group describe billing"),
        ("--describe --group G --members --verbose", "headrace group members billing"),
        ("--describe --group G --state", "headrace group describe billing"),
        ("--describe --all-groups", "headrace group describe --all"),
        ("--validate-regex REGEX", "headrace group validate-regex 'ord.*'"),
        (
            "--reset-offsets --group G --topic T --to-earliest --dry-run",
            "headrace group reset billing -t orders --to-earliest",
        ),
        (
            "--reset-offsets --group G --topic T:0 --to-offset 1 --execute",
            "headrace group reset billing -t orders:0 --to-offset 1 --execute",
        ),
        (
            "--reset-offsets --group G --all-topics --to-latest --export",
            "headrace group reset billing --all-topics --to-latest --export",
        ),
        ("--reset-offsets … --to-current", "headrace group reset billing -t orders --to-current"),
        (
            "--reset-offsets … --to-datetime TIME",
            "headrace group reset billing -t orders --to-datetime 2024-01-01T00:00:00Z",
        ),
        ("--reset-offsets … --by-duration P", "headrace group reset billing -t orders --by-duration P1D"),
        ("--reset-offsets … --shift-by N", "headrace group reset billing -t orders:0 --shift-by -1"),
        ("--reset-offsets … --from-file CSV", "headrace group reset billing --from-file offsets.csv"),
        ("--delete-offsets --group G --topic T", "headrace group delete-offsets billing -t orders:1"),
        ("--delete --group G", "headrace group delete billing --yes"),
    ),
    "kafka-groups": (
        ("--list", "headrace group list"),
        ("--list --group-type streams", "headrace group list --type streams"),
        ("--list --protocol consumer", "headrace group list --protocol consumer"),
    ),
    "kafka-share-groups": (("--list, --describe, --reset-offsets, --delete", "", _SHARE),),
    "kafka-streams-groups": (
        ("--list", "headrace group list --type streams"),
        ("--describe --group G --members", "headrace group tasks shop"),
        ("--describe --group G --topology", "headrace group describe shop"),
        ("--reset-offsets --group G --to-earliest", "headrace group reset shop -t orders --to-earliest"),
        ("--delete-offsets --group G --topic T", "headrace group delete-offsets shop -t orders"),
        ("--delete --group G", "headrace group delete shop --yes"),
    ),
    "kafka-streams-application-reset": (
        ("--application-id A --input-topics T --dry-run", "headrace stream reset shop -t orders"),
        ("--application-id A --input-topics T", "headrace stream reset shop -t orders --execute"),
        (
            "--application-id A --input-topics T --to-latest",
            "headrace stream reset shop -t orders --to-latest --execute",
        ),
        (
            "--application-id A --internal-topics T --force",
            "headrace stream reset shop -t orders --force --execute",
        ),
    ),
    "kafka-transactions": (
        ("list", "headrace txn list"),
        ("list --duration-filter MS", "headrace txn list --longer-than PT1H"),
        ("list --transactional-id-pattern REGEX", "headrace txn list --pattern 'etl.*'"),
        ("describe --transactional-id X", "headrace txn describe etl-1"),
        ("describe-producers --topic T --partition 0", "headrace txn producers orders -p 0"),
        ("find-hanging --broker-id 1", "headrace txn find-hanging --node 1"),
        ("find-hanging --topic T", "headrace txn find-hanging -t orders --max-transaction-timeout PT20M"),
        (
            "abort --topic T --partition 0 --start-offset N",
            "headrace txn abort -t orders -p 0 --start-offset 0 --yes",
        ),
        (
            "abort --topic T --partition 0 --producer-id P --producer-epoch E --coordinator-epoch C",
            "headrace txn abort -t orders -p 0 --producer-id 1 --producer-epoch 0"
            " --coordinator-epoch 0 --yes",
        ),
        ("forceTerminateTransaction --transactional-id X", "headrace txn abort-prepared etl-1 --yes"),
    ),
}

OPERATION_TOOLS: Tools = {
    "kafka-reassign-partitions": (
        (
            "--generate --topics-to-move-json-file F --broker-list 1,2",
            "headrace partition reassign --generate -t orders --nodes 1,2",
        ),
        ("--execute --reassignment-json-file F", "headrace partition reassign --execute plan.json"),
        (
            "--execute --reassignment-json-file F --throttle N",
            "headrace partition reassign --execute plan.json --throttle 10000000",
        ),
        ("--verify --reassignment-json-file F", "headrace partition reassign --verify plan.json"),
        ("--cancel --reassignment-json-file F", "headrace partition reassign --cancel plan.json"),
        ("--list", "headrace partition reassign --list"),
        (
            "--generate … --disable-rack-aware",
            "headrace partition reassign --generate -t orders --disable-rack-aware",
        ),
        (
            "--execute … --additional",
            "headrace partition reassign --execute plan.json",
            "moves in progress go on",
        ),
        ("--execute … --replica-alter-log-dirs-throttle N", "", "moves between log dirs are not throttled"),
        (
            "--verify … --preserve-throttles",
            "",
            "`config alter --delete` removes throttles, `--set` sets them again",
        ),
        (
            "--execute … (log_dirs in the JSON)",
            "headrace partition move-dir /data/2 --node 1 -t orders -p 0",
        ),
    ),
    "kafka-leader-election": (
        (
            "--election-type preferred --topic T --partition 0",
            "headrace partition elect --preferred -t orders -p 0",
        ),
        ("--election-type preferred --all-topic-partitions", "headrace partition elect --preferred --all"),
        (
            "--election-type preferred --path-to-json-file F",
            "headrace partition elect --preferred --from-file places.json",
        ),
        (
            "--election-type unclean --topic T --partition 0",
            "headrace partition elect --unclean -t orders -p 0 --yes",
        ),
    ),
    "kafka-log-dirs": (
        ("--describe", "headrace log dirs"),
        ("--describe --broker-list 1 --topic-list T", "headrace log dirs --node 1 -t orders"),
    ),
    "kafka-replica-verification": (
        ("--topics-include REGEX", "headrace partition verify --include 'ord.*'"),
        ("--topics-include T", "headrace partition verify orders"),
    ),
    "kafka-dump-log": (
        ("--files F --print-data-log --deep-iteration", "headrace log dump data"),
        ("--files F", "headrace log dump --batches data"),
        ("--files F --index-sanity-check --verify-index-only", "headrace log dump --faults data"),
        ("--files F --cluster-metadata-decoder", "headrace metadata log data"),
        ("--files F --share-group-state-decoder", "", _SHARE),
        ("--files F --remote-log-metadata-decoder", "", "there is no tiered storage"),
    ),
    "kafka-features": (
        ("describe", "headrace feature list"),
        ("upgrade --feature transaction.version=2", "headrace feature set transaction.version 2"),
        ("upgrade --release-version 4.3", "headrace feature upgrade"),
        ("upgrade … --dry-run", "headrace feature set group.version 1 --dry-run"),
        (
            "downgrade --feature transaction.version=1 --unsafe",
            "headrace feature set transaction.version 1 --downgrade",
        ),
        (
            "disable --feature transaction.version",
            "headrace feature set transaction.version 0 --downgrade --dry-run",
        ),
        ("version-mapping --release-version 4.3", "headrace feature versions"),
        (
            "feature-dependencies --feature transaction.version=2",
            "",
            "features do not depend on each other",
        ),
    ),
    "kafka-metadata-quorum": (
        ("describe --status", "headrace quorum status"),
        ("describe --replication", "headrace quorum status"),
        ("add-controller", "headrace quorum add-voter 2 127.0.0.1:9093"),
        ("remove-controller --controller-id 2", "headrace quorum remove-voter 2"),
    ),
    "kafka-metadata-shell": (
        ("--directory DIR", "headrace metadata shell data"),
        ("--snapshot F ls /", "headrace metadata ls data /"),
        ("--snapshot F cat PATH", "headrace metadata cat data /topics/by-name/orders/0"),
        ("--snapshot F tree PATH", "headrace metadata tree data /brokers"),
        ("--snapshot F find PATH", "headrace metadata find data /topics"),
    ),
    "kafka-storage": (
        ("random-uuid", "headrace storage random-uuid"),
        ("info -c F", "headrace storage info data"),
        (
            "format -t ID -c F",
            "headrace storage format new-data --cluster-id 5L6g3nShT-eMCtK--X86sw --node 7",
        ),
        (
            "format -t ID -c F --standalone",
            "headrace storage format new-metadata --cluster-id 5L6g3nShT-eMCtK--X86sw --controller"
            " 100 --standalone 127.0.0.1:9093",
        ),
        (
            "format … --initial-controllers 100@HOST:PORT:DIR,…",
            "headrace storage format voter-100 --cluster-id 5L6g3nShT-eMCtK--X86sw --controller 100"
            " --initial-controllers 100@127.0.0.1:9093:4jmAyQBTTRinI3TLcwbd1A",
        ),
        (
            "format … --no-initial-controllers",
            "headrace storage format observer-101 --cluster-id 5L6g3nShT-eMCtK--X86sw --controller 101",
        ),
        ("format … --add-scram", "", "`headrace up --secure` creates the first user; `user create` others"),
        ("format … --feature", "", "`headrace feature set`, once the cluster is up"),
        ("version-mapping --release-version 4.3", "headrace feature versions"),
    ),
    "kafka-cluster": (
        ("cluster-id", "headrace cluster id"),
        ("list-endpoints", "headrace cluster endpoints"),
        ("list-endpoints --include-fenced-brokers", "headrace cluster endpoints --include-fenced"),
        ("list-endpoints --bootstrap-controller", "headrace cluster endpoints --controllers"),
        ("api-versions", "headrace cluster api-versions"),
        ("unregister --id 3", "headrace node unregister 3 --yes"),
    ),
    "kafka-broker-api-versions": (("", "headrace cluster api-versions"),),
    "kafka-client-metrics": (
        ("--list", "headrace client-metrics list"),
        ("--describe", "headrace client-metrics describe"),
        (
            "--alter --name N --metrics M --interval MS --match F=R",
            "headrace client-metrics alter --name slow --metrics org.apache.kafka.producer."
            " --interval 5000 --match client_id=app-.*",
        ),
        (
            "--alter --generate-name --metrics M",
            "headrace client-metrics alter --generate-name --metrics '*'",
        ),
        ("--delete --name N", "headrace client-metrics delete --name slow"),
    ),
}

SECURITY_TOOLS: Tools = {
    "kafka-acls": (
        ("--list", "headrace acl list"),
        (
            "--add --allow-principal User:ann --operation Read --topic T",
            "headrace acl create --user ann --operation read --topic orders",
        ),
        (
            "--add --allow-principal User:ann --producer --topic T",
            "headrace acl create --user ann --operation write --operation describe --operation"
            " create --topic orders",
        ),
        (
            "--add --allow-principal User:ann --consumer --topic T --group G",
            "headrace acl create --user ann --operation read --operation describe --topic orders"
            " --group billing",
        ),
        (
            "--add --allow-principal User:ann --idempotent --cluster",
            "headrace acl create --user ann --operation idempotent-write --on-cluster",
        ),
        (
            "--add --deny-principal User:bob --deny-host 10.0.0.1 --operation Write --topic T"
            " --resource-pattern-type prefixed",
            "headrace acl create --deny --user bob --host 10.0.0.1 --operation write --topic ord --prefixed",
        ),
        ("--list --topic T", "headrace acl list --topic orders --matching"),
        ("--remove --topic T", "headrace acl delete --topic orders"),
    ),
    "kafka-delegation-tokens": (
        ("--describe", "headrace token list"),
        (
            "--create --max-life-time-period MS --renewer-principal User:bob",
            "headrace token create --max-lifetime-ms 3600000 --renewer bob",
        ),
        ("--renew --renew-time-period MS --hmac H", "headrace token renew aGk= --period-ms 60000"),
        ("--expire --expiry-time-period MS --hmac H", "headrace token expire aGk= --period-ms 60000"),
    ),
}

OTHER_TOOLS: Tools = {
    "kafka-server-start": (
        ("server.properties", "headrace up --nodes 1", "`-X key=value` has the keys of the file"),
        ("server.properties (one process, without Ray)", "headrace server node -c server.properties"),
    ),
    "kafka-server-stop": (("", "headrace down"),),
    "kafka-jmx": (
        (
            "--object-name …",
            "headrace telemetry targets",
            "there is no JMX: Prometheus reads these endpoints",
        ),
        ("(alert rules)", "headrace telemetry rules"),
        ("(dashboards)", "headrace telemetry dashboards overview"),
    ),
    "kafka-run-class": (("CLASS", "", "there are no Java classes"),),
    "connect-standalone": (("", "", _CONNECT),),
    "connect-distributed": (("", "", _CONNECT),),
    "connect-plugin-path": (("", "", _CONNECT),),
    "connect-mirror-maker": (("", "", _MIRROR),),
    "trogdor": (("", "", "`headrace bench` measures; faults are injected by tests/faults"),),
}
