"""The options of Apache Kafka's tools as options of headrace, read by `kafka_translation`. Pure.

`[WORDS] COMMAND` begins a use of a tool: that of a command line with all of these words, the first match
counts; `--option=value` in WORDS matches that value, with * for any text. The lines below it are the options
of this use; those before the first use are those of all. `--kafka V: WORDS` takes a value, `V?` may have one,
`V+` has one or more; without V it has none. {} in WORDS is the value, {name} the value in another form: see
`kafka_forms`. Nothing behind the colon: headrace does so anyway, or needs no such option.
`! REASON`: there is no such option. The words of `[WORDS]` need no line. `=NAME` begins lines that `+NAME`
inserts; `*` stands for words that are no options. Words in capitals are for the user to replace; `# REMARK`
says by what.
"""

from __future__ import annotations

from .kafka_options_groups import GROUP_OPTIONS
from .kafka_options_records import RECORD_OPTIONS

GLOBAL = """
--bootstrap-server V: -b {}
--bootstrap-controller V: -b {}
--command-config V: --command-config {}
"""
# These connect to no cluster.
LOCAL = {"kafka-dump-log", "kafka-metadata-shell", "kafka-storage", "kafka-server-start", "kafka-server-stop"}
OPTIONS: dict[str, str] = {
    **RECORD_OPTIONS,
    **GROUP_OPTIONS,
    "kafka-topics": """
[--list --exclude-internal] topic list
--topic V: ! `headrace topic list` lists all; `headrace topic describe NAME` shows some
[--list] topic list --internal
--topic V: ! `headrace topic list` lists all; `headrace topic describe NAME` shows some
[--create] topic create
--topic V: {}
--partitions V: -p {}
--replication-factor V: -r {}
--replica-assignment V: --replica-assignment {}
--config V: -X {}
--if-not-exists: --if-not-exists
[--alter] topic add-partitions
--topic V: {}
--partitions V: {}
--replica-assignment V: ! nodes of new partitions are chosen; `headrace partition reassign` moves them
--if-exists: ! a missing topic is an error
[--delete] topic delete --yes
--topic V: {}
--topic-id V: ! topics are deleted by name
--if-exists: --if-exists
[--describe --topic] topic describe
+describe
[--describe --topic-id] topic describe
+describe
[--describe --topics-with-overrides] topic describe
+describe
[--describe --under-replicated-partitions] topic describe
+describe
[--describe --unavailable-partitions] topic describe
+describe
[--describe --under-min-isr-partitions] topic describe
+describe
[--describe --at-min-isr-partitions] topic describe
+describe
[--describe] topic describe --all
+describe
=describe
--topic V: {}
--topic-id V: --id {}
--under-replicated-partitions: --under-replicated
--unavailable-partitions: --unavailable
--under-min-isr-partitions: --under-min-isr
--at-min-isr-partitions: --at-min-isr
--topics-with-overrides: --with-overrides
--exclude-internal:
--partition-size-limit-per-response V:
--if-exists: ! a missing topic is an error
""",
    "kafka-configs": """
[--alter --users --add-config=SCRAM-*] user create --password-stdin  # reads the password from standard input
--users V: {}
--add-config V: {mechanism}
[--alter --users --delete-config=SCRAM-*] user delete
--users V: {}
--delete-config V: --mechanism {}
[--alter --client-metrics] client-metrics alter
--client-metrics V: --name {}
--add-config V: {subscription}
--delete-config V: ! an empty value resets a setting: --interval ''
[--describe --client-metrics] client-metrics describe
--client-metrics V?: --name {}
[--alter --users] quota alter
+alter-quota
[--alter --clients] quota alter
+alter-quota
[--alter --ips] quota alter
+alter-quota
[--alter --users-defaults] quota alter
+alter-quota
[--alter --clients-defaults] quota alter
+alter-quota
[--alter --ips-defaults] quota alter
+alter-quota
=alter-quota
--add-config V: --set {pairs}
--delete-config V: --delete {each}
+quota-entities
=quota-entities
--users V?: --user {}
--clients V?: --client {}
--ips V?: --ip {}
--users-defaults: --user-defaults
--clients-defaults: --client-defaults
--ips-defaults: --ip-defaults
[--describe --users] quota describe  # `headrace user list` shows SCRAM credentials
+describe-quota
[--describe --clients] quota describe
+describe-quota
[--describe --ips] quota describe
+describe-quota
[--describe --users-defaults] quota describe
+describe-quota
[--describe --clients-defaults] quota describe
+describe-quota
[--describe --ips-defaults] quota describe
+describe-quota
=describe-quota
+quota-entities
[--alter] config alter
--add-config V: --set {pairs}
--add-config-file V: --set-file {}
--delete-config V: --delete {each}
+entities
[--describe] config describe
--all: --all
+entities
=entities
--topics V?: --topic {}
--brokers V?: --node {}
--brokers-defaults: --cluster-wide
--broker-loggers V: --loggers {}
--groups V?: --group {}
--force:
""",
    "kafka-reassign-partitions": """
--timeout V: -X default.api.timeout.ms={}
[--generate] partition reassign --generate
--topics-to-move-json-file V: -t {topics}
--broker-list V: --nodes {}
--disable-rack-aware: --disable-rack-aware
[--execute] partition reassign
--reassignment-json-file V: --execute {}
--throttle V: --throttle {}
--additional:
--replica-alter-log-dirs-throttle V: ! moves between log dirs are not throttled
--disallow-replication-factor-change: ! `headrace partition reassign` allows it
[--verify] partition reassign
--reassignment-json-file V: --verify {}
--preserve-throttles: ! `headrace config alter --set` sets throttles again
[--cancel] partition reassign
--reassignment-json-file V: --cancel {}
--preserve-throttles: ! `headrace config alter --set` sets throttles again
[--list] partition reassign --list
""",
    "kafka-leader-election": """
--admin.config V: --command-config {}
--topic V: -t {}
--partition V: -p {}
--path-to-json-file V: --from-file {}
--all-topic-partitions: --all
--election-type V:
[--election-type=unclean] partition elect --unclean --yes
[] partition elect --preferred
""",
    "kafka-log-dirs": """
[] log dirs
--describe:
--topic-list V: -t {each}
--broker-list V: --node {each}
""",
    "kafka-dump-log": """
--files V: {each}
--deep-iteration:
--verify-index-only:
--index-sanity-check:
--max-message-size V:
--max-bytes V: ! files are printed to their ends
--skip-record-metadata:
--offsets-decoder:
--transaction-log-decoder:
--remote-log-metadata-decoder: ! there is no tiered storage
--share-group-state-decoder: ! share groups are not built yet
--key-decoder-class V: ! there are no decoder classes: keys are bytes
--value-decoder-class V: ! there are no decoder classes: values are bytes
--print-data-log:
--cluster-metadata-decoder:
[--cluster-metadata-decoder] metadata log
[--index-sanity-check] log dump --faults
[--verify-index-only] log dump --faults
[--print-data-log] log dump
[--offsets-decoder] log dump
[--transaction-log-decoder] log dump
[] log dump --batches
""",
    "kafka-features": """
[describe] feature list
[upgrade --feature] feature set
--feature V: {feature}
--dry-run: --dry-run
[upgrade] feature upgrade
--release-version V:
--metadata V:
--dry-run: --dry-run
[downgrade --feature] feature set --downgrade
--feature V: {feature}
--dry-run: --dry-run
--unsafe:
[downgrade] feature set --downgrade FEATURE LEVEL  # `headrace feature versions` has the levels
--release-version V:
--metadata V:
--dry-run: --dry-run
--unsafe:
[disable] feature set --downgrade
--feature V: {disabled}
--dry-run: --dry-run
--unsafe:
[version-mapping] feature versions
--bootstrap-server V:
--bootstrap-controller V:
--command-config V:
--release-version V:
[feature-dependencies] feature versions  # features do not depend on each other
--bootstrap-server V:
--bootstrap-controller V:
--command-config V:
--feature V:
""",
    "kafka-metadata-quorum": """
[describe] quorum status
--status:
--replication:
--human-readable:
[add-controller] quorum add-voter ID HOST:PORT  # node.id and the listener of the new controller
--dry-run: ! the controller is added at once
[remove-controller] quorum remove-voter
--controller-id V: {}
--controller-directory-id V: --directory {}
--dry-run: ! the controller is removed at once
""",
    "kafka-metadata-shell": """
=source
--directory V: {}
--snapshot V: {}
[ls] metadata ls
+source
ls V?: {}
[cat] metadata cat
+source
cat V: {}
[tree] metadata tree
+source
tree V?: {}
[find] metadata find
+source
find V?: {}
[] metadata shell
+source
""",
    "kafka-storage": """
[random-uuid] storage random-uuid
[info] storage info DIR  # DIR is log.dirs of the file
--config V:
-c V:
[format --standalone] storage format DIR --controller ID --standalone HOST:PORT  # as in the file
+format
[format --initial-controllers] storage format DIR --controller ID  # as in the file
+format
[format --no-initial-controllers] storage format DIR --controller ID  # as in the file
+format
[format] storage format DIR --node ID  # DIR and ID are log.dirs and node.id of the file
+format
=format
--config V:
-c V:
--cluster-id V: --cluster-id {}
-t V: --cluster-id {}
--standalone:
-s:
--initial-controllers V: --initial-controllers {}
-I V: --initial-controllers {}
--no-initial-controllers:
-N:
--ignore-formatted: --ignore-formatted
-g: --ignore-formatted
--add-scram V: ! `headrace up --secure` creates the first user, `headrace user create` others
-S V: ! `headrace up --secure` creates the first user, `headrace user create` others
--feature V: ! `headrace feature set`, once the cluster is up
-f V: ! `headrace feature set`, once the cluster is up
--release-version V:
-r V:
[version-mapping] feature versions
--release-version V:
-r V:
[feature-dependencies] feature versions  # features do not depend on each other
--bootstrap-server V:
--bootstrap-controller V:
--command-config V:
--feature V:
-f V:
""",
    "kafka-cluster": """
--config V: --command-config {}
-c V: --command-config {}
-b V: -b {}
-C V: -b {}
[cluster-id] cluster id
[unregister] node unregister --yes
--id V: {}
-i V: {}
[list-endpoints --bootstrap-controller] cluster endpoints --controllers
[list-endpoints -C] cluster endpoints --controllers
[list-endpoints] cluster endpoints
--include-fenced-brokers: --include-fenced
[api-versions] cluster api-versions
""",
    "kafka-broker-api-versions": """
[] cluster api-versions
""",
    "kafka-client-metrics": """
[--list] client-metrics list
[--describe] client-metrics describe
--name V: --name {}
[--alter] client-metrics alter
--name V: --name {}
--generate-name: --generate-name
--metrics V: --metrics {}
--interval V: --interval {}
--match V: --match {}
[--delete] client-metrics delete
--name V: --name {}
""",
    "kafka-acls": """
--topic V: --topic {}
--group V: --group {}
--cluster: --on-cluster
--transactional-id V: --transactional-id {}
--delegation-token V: --delegation-token {}
--user-principal V: --on-user {}
--force:
--operation V: --operation {}
[--add --deny-principal] acl create --deny
--deny-principal V: --user {}
--deny-host V: --host {}
+add
[--add] acl create
--allow-principal V: --user {}
--allow-host V: --host {}
+add
=add
--resource-pattern-type V: {pattern}
--producer: --operation write --operation describe --operation create
--consumer: --operation read --operation describe
--idempotent: --operation idempotent-write --on-cluster
[--remove] acl delete
+filter
[--list --resource-pattern-type=match] acl list --matching
+filter
[--list] acl list
+filter
=filter
--principal V: --user {}
--allow-principal V: --allow --user {}
--deny-principal V: --deny --user {}
--allow-host V: --host {}
--deny-host V: --host {}
--resource-pattern-type V: {pattern}
--producer: ! give one --operation
--consumer: ! give one --operation
--idempotent: ! give one --operation
""",
    "kafka-delegation-tokens": """
[--create] token create
--max-life-time-period V: --max-lifetime-ms {}
--renewer-principal V: --renewer {}
--owner-principal V: --owner {}
[--renew] token renew
--hmac V: {}
--renew-time-period V: --period-ms {}
[--expire] token expire
--hmac V: {}
--expiry-time-period V: --period-ms {}
[--describe] token list
--owner-principal V: --owner {}
""",
    "kafka-server-start": """
[] server node
* V: -c {}
-daemon: ! `headrace deploy systemd` prints a unit that runs it in the background
--override V: -X {}
""",
    "kafka-server-stop": """
[] down
--process-role V: ! `systemctl stop` stops one server
--node-id V: ! `systemctl stop` stops one server
""",
}
