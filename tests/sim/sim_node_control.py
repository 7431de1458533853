"""A simulated node's link to the controller, in place of `controller_link_io.py`; see sim_node.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.protocol.errors import KafkaError, NotControllerError
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    FetchMetadataRequest,
)
from headrace.protocol.metadata.features import OWN_RANGES
from headrace.runtime.effect_performer import EffectPerformer, on
from headrace.storage_node.links import membership as m
from headrace.storage_node.log.losses import PreviousEnd

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim_transport import Link


class NodeControl:
    """The part of `SimNode` that sends requests to the controller; the attributes belong to the node."""

    def _submit(self, event: m.Event) -> None:
        self._perform_membership(self.membership.step(event, self.world.now_ms))
        self.membership.check()

    membership_performer: EffectPerformer  # of this process

    def _new_membership_performer(self) -> EffectPerformer:
        return EffectPerformer(
            m.Effect,
            on(m.FindController, lambda _: self.later(self._delay(5), "find the controller", self._find)),
            on(m.SendRegistration, lambda _: self._register()),
            on(m.AdoptIdentity, lambda effect: self._adopt(effect.node_id, effect.cluster_id)),
            on(m.SendHeartbeat, self._send_heartbeat),
            on(m.FollowMetadata, self._start_following),
            on(m.SetTimer, self._set_membership_timer),
            on(m.ShutdownAllowed, lambda _: self.later(0, "shut down", self._shut_down)),
            on(m.Failed, self._fail),
        )

    def _perform_membership(self, effects: tuple[m.Effect, ...]) -> None:
        for effect in effects:
            if self.is_alive:
                self.membership_performer.perform(effect)

    def _start_following(self, _effect: m.FollowMetadata) -> None:
        if not self._is_following:
            self._is_following = True
            self._follow()

    def _set_membership_timer(self, effect: m.SetTimer) -> None:
        self._set_timer(effect.key, effect.deadline_ms, lambda: self._submit(m.TimerFired(effect.key)))

    def _fail(self, effect: m.Failed) -> None:
        raise AssertionError(f"{self.name} was refused by the controller: {effect.error}")

    def _find(self) -> None:
        target = self.cluster.guess_controller(self.random)
        self._link = self.cluster.transport.open(self, target)
        self._is_following = False
        self._submit(m.Connected())

    def _lost(self, link: Link) -> None:
        if self._link is link:
            self._link, self._is_following = None, False
            link.close()
            self._submit(m.Disconnected())

    def _ask(
        self,
        api: Any,
        body: Any,
        timeout_ms: int,
        done: Callable[[Any], None],
        failed: Callable[[], None] = lambda: None,
    ) -> bool:
        """Send a request to the controller; False without a connection. A failure closes the connection."""
        link = self._link
        if link is None:
            return False
        if not link.is_usable:
            self._lost(link)
            return False

        def answered(response: Any, _frames: Any) -> None:
            is_refused = isinstance(response, KafkaError)
            if is_refused or response.error_code == NotControllerError.code:
                self._lost(link)
                failed()
            else:
                done(response)

        link.ask(api, body, (), timeout_ms, answered)
        return True

    def _register(self) -> None:
        broker_epoch = self.membership.broker_epoch
        end = PreviousEnd(broker_epoch) if broker_epoch >= 0 else self.previous_end
        body = BrokerRegistrationRequest(
            self.node_id,
            self.cluster_id,
            self.incarnation,
            self.name,
            9_000,
            self.config.broker_rack or None,
            self.manager.dirs.ids,
            end.broker_epoch,
            end.lost,
            features=OWN_RANGES,
        )

        def done(response: Any) -> None:
            if not response.error_code:
                self.is_lossy = False
            self._submit(m.RegistrationAnswered(response))

        self._ask(registry.BROKER_REGISTRATION, body, self.config.controller_request_timeout_ms, done)

    def _send_heartbeat(self, effect: m.SendHeartbeat) -> None:
        report = self.running.replicas.disks.report()
        body = BrokerHeartbeatRequest(
            self.node_id,
            effect.broker_epoch,
            self.running.image.offset,
            want_shutdown=effect.want_shutdown,
            offline_log_dirs=report.offline_dirs,
            offline_replicas=report.offline,
            full_replicas=report.full,
        )
        self._ask(
            registry.BROKER_HEARTBEAT,
            body,
            self.config.controller_request_timeout_ms,
            lambda response: self._submit(m.HeartbeatAnswered(response, effect.sent_ms)),
        )

    def _adopt(self, node_id: int, cluster_id: str) -> None:
        self.manager.dirs.set_identity(cluster_id, node_id)
        self.cluster_id = cluster_id
        self.running.joined(node_id, 1)

    def _follow(self) -> None:
        wait_ms = self.config.metadata_max_wait_ms
        link = self._link

        def done(response: Any) -> None:
            if response.error_code:
                if link is not None:
                    self._lost(link)
                return
            if self._is_checkpointing:
                self.later(1, "follow later", lambda: done(response))
                return
            core, broker_epoch = self.running, self.membership.broker_epoch
            step = core.read_metadata(response)
            if step is not None:
                tasks = core.logs_ahead(step, broker_epoch)
                for task in tasks:
                    task.run()
                core.follow(step, broker_epoch, tasks, now_ms=self.world.now_ms)
            self._submit(m.MetadataApplied(core.image.offset))
            if self._link is link and self._is_following:
                self._follow()

        body = FetchMetadataRequest(self.node_id, self.running.image.offset, wait_ms)
        self._ask(registry.FETCH_METADATA, body, wait_ms + self.config.controller_request_timeout_ms, done)
