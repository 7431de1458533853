"""Three controllers, for a script: nothing happens by chance but the election timeouts of one seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.protocol.messages.quorum import QuorumFetchRequest
from network import Weather
from quorum import Plan, Role, SimController, SimQuorum
from recorder import Fact, Recorder
from wording import QUORUM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from recorder import Message

STEADY = Weather(min_delay_ms=1, mean_delay_ms=0)
LIMIT_MS = 30_000


class QuorumStage(SimQuorum):
    """A quorum whose conversation is recorded."""

    def __init__(self) -> None:
        super().__init__("traces", Plan(voters=3, observers=0, weather=STEADY))
        self.network.weather = STEADY
        self.recorder = Recorder(
            self.world, QUORUM | {QuorumFetchRequest: self._fetch}, (self._roles, self._logs)
        )

    def until(self, condition: Callable[[], bool]) -> None:
        """Let time pass until it holds."""
        assert self.world.run(LIMIT_MS, until=condition), self.summary()

    @property
    def leader(self) -> SimController:
        """The controller that leads and decides."""
        (leader,) = self.active()
        return leader

    def has_replicated(self) -> bool:
        """Whether all controllers have the leader's log, and know that it is committed."""
        active = self.active()
        return len(active) == 1 and all(
            each.is_alive and each.log.high_watermark == active[0].log.end_offset
            for each in self.controllers.values()
        )

    def _fetch(self, message: Message) -> str:
        """A fetch from a controller that leads; those that look for the leader are left out."""
        is_leader = self.controllers[int(message.target[1:])].living.role is Role.LEADER
        return QUORUM[QuorumFetchRequest](message) if is_leader else ""

    def _check(self) -> None:
        super()._check()
        self.recorder.look()

    def _roles(self) -> Iterator[Fact]:
        for number, controller in self.controllers.items():
            if controller.raft is not None:
                context = controller.raft.context
                role = (controller.raft.role.value, context.epoch, context.leader_id)
                follows = f" of controller {role[2]}" if role[0] == "follower" else ""
                yield Fact(
                    ("role", number), role, f"controller {number}: {role[0]}{follows}, epoch {role[1]}"
                )

    def _logs(self) -> Iterator[Fact]:
        for number, controller in self.controllers.items():
            if controller.is_alive:
                ends = (controller.log.end_offset, controller.log.high_watermark)
                sentence = f"controller {number}: log end offset {ends[0]}, high watermark {ends[1]}"
                yield Fact(("log", number), ends, sentence)
