"""Options of Kafka's tools for groups and transactions. See `kafka_options`. Pure."""

from __future__ import annotations

_RESET_RULES = """
--to-earliest: --to-earliest
--to-latest: --to-latest
--to-current: --to-current
--to-offset V: --to-offset {}
--to-datetime V: --to-datetime {}
--by-duration V: --by-duration {}
--shift-by V: --shift-by {}
--from-file V: --from-file {}
"""
_TIMEOUT = """
--timeout V: -X default.api.timeout.ms={}
"""

GROUP_OPTIONS: dict[str, str] = {
    "kafka-consumer-groups": _TIMEOUT
    + """
[--list] group list
--state V?: --state {each}
--type V?: --type {each}
[--describe --members] group members
+describe
[--describe] group describe
+describe
=describe
--group V: {}
--all-groups: --all
--offsets:
--state V?:
--verbose:
[--delete] group delete --yes
--group V: {}
--all-groups: ! name the groups: `headrace group list -o name` lists them
[--reset-offsets] group reset
--group V: {}
--all-groups: ! one group at a time
--topic V: -t {}
--all-topics: --all-topics
--dry-run:
--execute: --execute
--export: --export"""
    + _RESET_RULES
    + """
[--delete-offsets] group delete-offsets
--group V: {}
--topic V: -t {}
[--validate-regex] group validate-regex
--validate-regex V: {}
""",
    "kafka-groups": """
[--list] group list
--group-type V: --type {}
--protocol V: --protocol {}
--consumer: --type consumer
--streams: --type streams
--share: ! share groups are not built yet
""",
    "kafka-streams-groups": _TIMEOUT
    + """
[--list] group list --type streams
--state V?: --state {each}
[--describe --members] group tasks
+describe
[--describe] group describe
+describe
=describe
--group V: {}
--all-groups: ! name the groups: `headrace group list --type streams -o name` lists them
--offsets:
--state:
--topology:
--verbose:
[--delete] group delete --yes
--group V: {}
--all-groups: ! name the groups: `headrace group list --type streams -o name` lists them
--internal-topic V: ! `headrace stream reset` deletes internal topics
--delete-all-internal-topics: ! `headrace stream reset` deletes internal topics
[--reset-offsets] group reset
--group V: {}
--all-groups: ! one group at a time
--input-topic V: -t {}
--all-input-topics: --all-topics
--topic V: -t {}
--dry-run:
--execute: --execute
--export: --export"""
    + _RESET_RULES
    + """
[--delete-offsets] group delete-offsets
--group V: {}
--input-topic V: -t {}
--topic V: -t {}
--all-input-topics: ! name the topics with --input-topic
""",
    "kafka-streams-application-reset": """
--application-id V: {}
--input-topics V: -t {each}
--internal-topics V: --internal-topic {each}
--intermediate-topics V: ! Kafka Streams has none since 3.0
--force: --force
--config-file V: --command-config {}"""
    + _RESET_RULES
    + """
[--dry-run] stream reset
[] stream reset --execute
""",
    "kafka-transactions": """
[list] txn list
--duration-filter V: --longer-than {duration}
--transactional-id-pattern V: --pattern {}
[describe] txn describe
--transactional-id V: {}
[describe-producers] txn producers
--topic V: {}
--partition V: -p {}
--broker-id V: ! the leader is asked
[find-hanging] txn find-hanging
--broker-id V: --node {}
--max-transaction-timeout V: --max-transaction-timeout PT{}M
--topic V: -t {}
--partition V: -p {}
[abort] txn abort --yes
--topic V: -t {}
--partition V: -p {}
--start-offset V: --start-offset {}
--producer-id V: --producer-id {}
--producer-epoch V: --producer-epoch {}
--coordinator-epoch V: --coordinator-epoch {}
[forceTerminateTransaction] txn abort-prepared --yes
--transactional-id V: {}
--transactionalId V: {}
""",
}
