"""The controller core: decides on changes of the cluster and holds the metadata image. Pure.

`decide` takes a request and returns records and a response; it changes soft state only. `apply` is the only
way to change the image; recovery is `apply` from the log. The shell appends the records of a decision,
applies them, waits until they are committed, and only then answers and publishes. If an append or a flush
fails, the process ends and the image is rebuilt from the log. Invariants: `state/laws.py`.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from ..protocol.errors import KafkaError, UnsupportedVersionError
from ..protocol.messages import control, quotas, roles, security
from ..protocol.messages.transactions import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ..protocol.metadata.features import ROLES_LEVEL, RULES_LEVEL, SECURITY_VERSION
from ..protocol.metadata.image import CLUSTER_DEFAULT
from ..protocol.metadata.records import ConfigRecord, FeatureLevelRecord, FormatRecord
from ..protocol.metadata.replay import replay
from ..runtime.config import SECOND
from ..runtime.stalls import LONG_STALL_MS
from .state import acl_rules, draining, heartbeats, leaders, reassignments, registration
from .state.client_quotas import decide_quotas, describe_quotas
from .state.config_rules import ConfigSizes, live_config
from .state.configs import MIN_ISR, Configs
from .state.decision import Decision
from .state.delegation_tokens import DelegationTokens
from .state.features import check_security_level, decide_features
from .state.fencing import Fencing
from .state.heartbeat_delays import HeartbeatDelays
from .state.in_sync import decide_alter_partition
from .state.laws import check_image
from .state.mutation_quotas import MutationQuotas
from .state.namespaces import decide_alter_namespaces, describe_namespaces
from .state.producer_ids import decide_allocate
from .state.roles import decide_alter_roles, describe_roles
from .state.scram_credentials import decide_scram, describe_scram
from .state.sessions import Sessions
from .state.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Set

    from ..protocol.metadata.image import MetadataDelta, MetadataImage
    from ..protocol.metadata.records import MetadataRecord
    from ..runtime.random_source import RandomSource
    from .config import ControllerConfig
    from .state.cluster_state import ClusterState
    from .state.features import Voters
    from .state.mutation_quotas import Charge

    _Decide = Callable[[Any, int], Decision]  # of a request, at a time in ms

# Bound also for long sessions: a node waits two seconds for the response to its long poll.
MAX_TICK_MS = 250


class Controller:
    """Decides and applies. `image` has all decisions, committed or not."""

    def __init__(
        self,
        config: ControllerConfig,
        randomness: RandomSource,
        image: MetadataImage,
        now_ms: int,
        voters: Callable[[], Voters] = dict,
    ) -> None:
        """Nodes that are active in `image` have one session timeout from `now_ms` to send a heartbeat.
        `voters` returns the feature levels that the other voters of the quorum support."""
        self.image = image
        delays = HeartbeatDelays(
            config.broker_heartbeat_interval_ms,
            config.broker_session_timeout_ms,
            config.broker_session_timeout_max_ms,
        )
        self.sessions = Sessions(delays)
        self.sessions.restart(sorted(n for n, b in image.brokers.items() if not b.is_fenced), now_ms)
        # Twice the interval of ticks: a longer gap is a stall.
        self._stall_ms = 2 * tick_interval_ms(config)
        self._last_tick_ms = now_ms
        self._own = config
        self._config = live_config(config, image)
        self._balance_due_ms = now_ms + self._balance_interval_ms
        self._unclean_due_ms = now_ms + self._config.unclean_leader_election_interval_ms
        fencing = self._fencing = Fencing(self._config, self.sessions)
        self.notes = fencing.notes
        self._sizes = ConfigSizes(image, config.max_config_bytes)
        self._topics = Topics(self._config, randomness, self._sizes, self.sessions.cordoned)
        self._configs = Configs(config, self._sizes)
        self._mutations = MutationQuotas(config)
        self._tokens = DelegationTokens(config, randomness)
        self._wall_offset_ms = 0  # the wall clock less the monotonic one
        self._tokens_due_ms = now_ms + config.delegation_token_expiry_check_interval_ms
        self._decide: dict[type, _Decide] = {
            control.BrokerRegistrationRequest: _answered(
                control.BrokerRegistrationResponse,
                lambda r, now_ms: registration.decide_registration(fencing, self.image, r, now_ms),
            ),
            control.BrokerHeartbeatRequest: _answered(
                control.BrokerHeartbeatResponse,
                lambda r, now_ms: heartbeats.decide_heartbeat(fencing, self.image, r, now_ms),
            ),
            control.UnregisterBrokerRequest: _answered(
                control.UnregisterBrokerResponse,
                lambda r, _: registration.decide_unregistration(fencing, self.image, r),
            ),
            control.CreateTopicsRequest: self._charged(self._topics.decide_create),
            control.DeleteTopicsRequest: self._charged(self._topics.decide_delete),
            control.CreatePartitionsRequest: self._charged(self._topics.decide_grow),
            **self._config_decisions(voters),
            **self._security_decisions(),
            control.AlterPartitionRequest: _answered(
                control.AlterPartitionResponse,
                lambda r, _: decide_alter_partition(
                    self._cluster, r, self._config.max_partitions_per_request
                ),
            ),
            control.ElectLeadersRequest: _answered(
                control.ElectLeadersResponse,
                lambda r, _: leaders.decide_elect_leaders(
                    self._cluster, r, self._config.max_partitions_per_request, fencing.notes
                ),
            ),
            control.AlterPartitionReassignmentsRequest: _answered(
                control.AlterPartitionReassignmentsResponse,
                lambda r, _: reassignments.decide_reassign(
                    self._cluster, r, self._config.max_partitions_per_request
                ),
            ),
            control.ListPartitionReassignmentsRequest: (
                lambda r, _: reassignments.list_reassignments(self.image, r)
            ),
            control.DrainNodeRequest: _answered(
                control.DrainNodeResponse, lambda r, _: draining.decide_drain(fencing, self.image, r)
            ),
            AllocateProducerIdsRequest: _answered(
                AllocateProducerIdsResponse, lambda r, _: decide_allocate(self.image, r)
            ),
        }

    def _config_decisions(self, voters: Callable[[], Voters]) -> dict[type, _Decide]:
        """Decisions on configs, quotas and feature levels."""
        return {
            control.IncrementalAlterConfigsRequest: lambda r, _: self._configs.decide_alter(self._cluster, r),
            control.DescribeConfigsRequest: lambda r, _: self._configs.describe(self.image, r),
            control.ListConfigResourcesRequest: (lambda r, _: self._configs.list_resources(self.image, r)),
            quotas.DescribeClientQuotasRequest: (lambda r, _: describe_quotas(self.image, r)),
            quotas.AlterClientQuotasRequest: lambda r, _: decide_quotas(self.image, r),
            quotas.UpdateFeaturesRequest: lambda r, _: decide_features(self.image, r, voters()),
        }

    def _security_decisions(self) -> dict[type, _Decide]:
        """Decisions on rules, SCRAM credentials, delegation tokens, roles and namespaces."""
        tokens = self._tokens
        return {
            security.CreateAclsRequest: self._leveled(
                RULES_LEVEL, "rules", lambda r, _: acl_rules.decide_create_acls(self.image, r)
            ),
            security.DeleteAclsRequest: lambda r, _: acl_rules.decide_delete_acls(self.image, r),
            security.DescribeAclsRequest: lambda r, _: acl_rules.describe_acls(self.image, r),
            security.AlterUserScramCredentialsRequest: self._leveled(
                RULES_LEVEL, "SCRAM credentials", lambda r, _: decide_scram(self.image, r)
            ),
            security.DescribeUserScramCredentialsRequest: lambda r, _: describe_scram(self.image, r),
            security.CreateDelegationTokenRequest: _answered(
                security.CreateDelegationTokenResponse,
                self._leveled(
                    RULES_LEVEL,
                    "delegation tokens",
                    lambda r, now_ms: tokens.decide_create(self.image, r, self._wall_ms(now_ms)),
                ),
            ),
            security.RenewDelegationTokenRequest: _answered(
                security.RenewDelegationTokenResponse,
                lambda r, now_ms: tokens.decide_renew(self.image, r, self._wall_ms(now_ms)),
            ),
            security.ExpireDelegationTokenRequest: _answered(
                security.ExpireDelegationTokenResponse,
                lambda r, now_ms: tokens.decide_expire(self.image, r, self._wall_ms(now_ms)),
            ),
            security.DescribeDelegationTokenRequest: _answered(
                security.DescribeDelegationTokenResponse, lambda r, _: tokens.describe(self.image, r)
            ),
            roles.AlterRolesRequest: self._leveled(
                ROLES_LEVEL, "roles", lambda r, _: decide_alter_roles(self.image, r)
            ),
            roles.DescribeRolesRequest: lambda r, _: describe_roles(self.image, r),
            roles.AlterNamespacesRequest: self._leveled(
                ROLES_LEVEL, "namespaces", lambda r, _: decide_alter_namespaces(self.image, r)
            ),
            roles.DescribeNamespacesRequest: lambda r, _: describe_namespaces(self.image, r),
        }

    def decide(self, request: Any, now_ms: int) -> Decision:
        """The records and the response.

        Errors: a KafkaError for the whole request, if its response has no field for one; no record is written
        then.
        """
        decide = self._decide.get(type(request))
        if decide is None:
            raise UnsupportedVersionError(f"the controller does not serve {type(request).__name__}")
        return decide(request, now_ms)

    def decide_format(self, cluster_id: str) -> tuple[MetadataRecord, ...]:
        """The first records of a new cluster, or nothing if the log has records."""
        if self.image.cluster_id:
            return ()
        return (
            FormatRecord(cluster_id),
            _cluster_min_isr(self._config.min_insync_replicas),
            FeatureLevelRecord(SECURITY_VERSION, ROLES_LEVEL),
        )

    def decide_expiry(self, now_ms: int) -> tuple[MetadataRecord, ...]:
        """Records that are due by time: they fence one node whose session expired, or elect some leaders.
        Apply them and call again until there are none."""
        return (
            self._decide_elr_config()
            or self._fencing.decide_expiry(self.image, now_ms)
            or self.decide_balance(now_ms)
            or self.decide_unclean(now_ms)
            or self._decide_expired_tokens(now_ms)
        )

    @property
    def timed_out_nodes(self) -> int:
        """How many nodes were fenced here because no heartbeat came in time."""
        return self._fencing.timed_out

    def _decide_elr_config(self) -> tuple[MetadataRecord, ...]:
        """The cluster-wide min.insync.replicas of a cluster whose metadata log has none: 1, the effective
        value. Source: Kafka ConfigurationControlManager.java, maybeGenerateElrSafetyRecords; KIP-966."""
        is_due = self.image.cluster_id and MIN_ISR not in self.image.configs.get(CLUSTER_DEFAULT, {})
        return (_cluster_min_isr(1),) if is_due else ()

    def note_ended(self, incarnation_ids: Set[bytes]) -> None:
        """A supervisor reports that these processes of nodes have ended: `decide_expiry` fences their
        registrations, and no others, also under the same node ids."""
        self._fencing.note_ended(self.image, incarnation_ids)

    def note_disconnected(self, node_id: int, broker_epoch: int, now_ms: int) -> None:
        """The connection of a registered node's heartbeats has closed."""
        self._fencing.note_disconnected(self.image, node_id, broker_epoch, now_ms)

    def decide_balance(self, now_ms: int) -> tuple[MetadataRecord, ...]:
        """Elect preferred leaders, if that is due: at most MAX_ELECTIONS now, the rest a tick later."""
        if not self._config.auto_leader_rebalance_enable or now_ms < self._balance_due_ms:
            return ()
        percentage = self._config.leader_imbalance_per_broker_percentage
        elections = leaders.decide_balance(self._cluster, percentage)
        records, wait_ms = self._bounded(elections, self._balance_interval_ms)
        self._balance_due_ms = now_ms + wait_ms
        if records:
            self.notes.moved(self.image, "balancing preferred leaders", records)
        return records

    def decide_unclean(self, now_ms: int) -> tuple[MetadataRecord, ...]:
        """Unclean elections for partitions without a leader whose topics allow them, if that is due; bounded
        as in `decide_balance`."""
        if now_ms < self._unclean_due_ms:
            return ()
        elections = leaders.decide_unclean(self._cluster)
        records, wait_ms = self._bounded(elections, self._config.unclean_leader_election_interval_ms)
        self._unclean_due_ms = now_ms + wait_ms
        return records

    def _decide_expired_tokens(self, now_ms: int) -> tuple[MetadataRecord, ...]:
        """Removals of expired delegation tokens, if that is due."""
        if now_ms < self._tokens_due_ms:
            return ()
        records = self._tokens.decide_expiry(self.image, self._wall_ms(now_ms))
        if not records:
            self._tokens_due_ms = now_ms + self._own.delegation_token_expiry_check_interval_ms
        return records

    def learn_wall_clock(self, now_ms: int, wall_ms: int) -> None:
        """The wall clock showed `wall_ms` at `now_ms`; delegation tokens expire by it."""
        self._wall_offset_ms = wall_ms - now_ms

    def _wall_ms(self, now_ms: int) -> int:
        return now_ms + self._wall_offset_ms

    def tick(self, now_ms: int) -> None:
        """The clock has reached `now_ms`. After a stall, in which no heartbeat could be received, all
        sessions are extended, so that a suspended controller does not fence the whole cluster when it
        resumes."""
        gap_ms = now_ms - self._last_tick_ms
        if gap_ms > self._stall_ms:
            self.sessions.extend(gap_ms)
            if gap_ms >= LONG_STALL_MS:
                self.notes.add(
                    f"this controller was stalled for {gap_ms} ms: the sessions of all nodes are extended",
                    is_warning=True,
                )
        self._last_tick_ms = now_ms

    def apply(self, base_offset: int, records: Sequence[MetadataRecord]) -> MetadataDelta:
        """Apply the records of one decision; the first has offset `base_offset`."""
        before = self.image
        self.image, delta = replay(before, base_offset, records)
        self._sizes.follow(before, self.image, delta.configs)
        if CLUSTER_DEFAULT in delta.configs:
            self._reconfigure()
        return delta

    def check(self) -> None:
        """Assert the invariants of the image; tests call this after every step."""
        check_image(self.image)

    def _reconfigure(self) -> None:
        """Apply the cluster's configs; periodic work is due by the new intervals at the latest."""
        self._config = self._fencing.config = self._topics.config = live_config(self._own, self.image)
        now_ms = self._last_tick_ms
        self._balance_due_ms = min(self._balance_due_ms, now_ms + self._balance_interval_ms)
        unclean_ms = self._config.unclean_leader_election_interval_ms
        self._unclean_due_ms = min(self._unclean_due_ms, now_ms + unclean_ms)

    @property
    def _cluster(self) -> ClusterState:
        return self._fencing.cluster(self.image)

    @property
    def _balance_interval_ms(self) -> int:
        return self._config.leader_imbalance_check_interval_seconds * SECOND

    def _bounded(
        self, elections: Iterator[MetadataRecord], interval_ms: int
    ) -> tuple[tuple[MetadataRecord, ...], int]:
        """The first elections, and the time until the next look: a tick if there may be more."""
        records = tuple(islice(elections, leaders.MAX_ELECTIONS))
        is_full = len(records) == leaders.MAX_ELECTIONS
        return records, tick_interval_ms(self._config) if is_full else interval_ms

    def _leveled(self, level: int, what: str, decide: _Decide) -> _Decide:
        """`decide`, which writes records of this level of security.version."""

        def checked(request: Any, now_ms: int) -> Decision:
            check_security_level(self.image, level, what)
            return decide(request, now_ms)

        return checked

    def _charged(self, decide: Callable[[MetadataImage, Any, Charge], Decision]) -> _Decide:
        """`decide`, charged to the client's quota."""
        return lambda request, now_ms: decide(
            self.image, request, self._mutations.charge(self.image, request, now_ms)
        )


def _answered(response: Callable[..., Any], decide: _Decide) -> _Decide:
    """`decide`, with a KafkaError of the whole request in its response."""

    def guarded(request: Any, now_ms: int) -> Decision:
        try:
            return decide(request, now_ms)
        except KafkaError as error:
            return Decision((), response(error_code=error.code, error_detail=str(error)))

    return guarded


def _cluster_min_isr(value: int) -> ConfigRecord:
    return ConfigRecord(*CLUSTER_DEFAULT, MIN_ISR, str(value))


def tick_interval_ms(config: ControllerConfig) -> int:
    """The interval of `tick`, short enough for sessions and long polls to expire on time."""
    return min(max(5, config.broker_session_timeout_ms // 20), MAX_TICK_MS)
