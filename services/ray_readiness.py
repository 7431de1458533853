"""Waits until the servers of `headrace up` serve, and forms the quorum of their controllers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..protocol.errors import HeadraceError
from ..runtime.tracing.control_io import call_context
from ..runtime.waiting_io import let_pass
from .data_dirs_io import index_of
from .ray_session import cause_of, gather

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Report = Callable[[str], None]

ANSWER_TIMEOUT_S = 5.0
POLL_S = 0.1
# A server that fails to start ends its process, and Ray restarts it; the third failure is reported.
MAX_START_FAILURES = 3


class StartError(HeadraceError):
    """The cluster did not become ready."""


def wait_until_up(
    ray: Any, actors: Mapping[str, Any], controllers: list[str], secret: str, timeout_s: float, report: Report
) -> dict[str, str]:
    """host:port of every actor once all serve. `controllers`: all, also those without a machine; `secret`:
    of the cluster.

    Errors: StartError.
    """
    deadline = time.monotonic() + timeout_s
    here = {name: actors[name] for name in controllers if name in actors}
    if not here:
        raise StartError("no controller can run: no machine of this Ray has the disk of one")
    if len(controllers) == 1:
        return wait_ready(ray, actors, timeout_s, report)
    endpoints = wait_ready(ray, here, timeout_s, report)
    if len(here) == len(controllers):
        _begin_quorum(ray, here, secret)
    nodes = {name: each for name, each in actors.items() if name not in here}
    return {**endpoints, **wait_ready(ray, nodes, max(deadline - time.monotonic(), 1.0), report)}


def _begin_quorum(ray: Any, controllers: Mapping[str, Any], secret: str) -> None:
    """Set the voters of a new cluster: once, and only if all of its disks are empty.

    Errors: StartError if a controller does not answer.
    """
    calls = {name: each.voter.remote(**call_context()) for name, each in controllers.items()}
    answers = gather(ray, calls, ANSWER_TIMEOUT_S)
    for name, answer in answers.items():
        if isinstance(answer, BaseException):
            raise StartError(f"{name} did not report whether its disk is empty: {reason_of(answer)}")
    if all(is_blank for _, is_blank in answers.values()):
        first = min(controllers, key=index_of)
        voters = [voter for voter, _ in answers.values()]
        begun = controllers[first].begin.remote(secret, voters, **call_context())
        outcome = gather(ray, {first: begun}, ANSWER_TIMEOUT_S)[first]
        if isinstance(outcome, BaseException):
            raise StartError(f"{first} failed to form the quorum: {reason_of(outcome)}")


def wait_ready(ray: Any, actors: Mapping[str, Any], timeout_s: float, report: Report) -> dict[str, str]:
    """host:port of every actor once all serve. Errors: StartError with the last error of the slowest one."""
    deadline = time.monotonic() + timeout_s
    calls = {name: handle.ready.remote(timeout_s, **call_context()) for name, handle in actors.items()}
    endpoints: dict[str, str] = {}
    failures: dict[str, int] = dict.fromkeys(actors, 0)
    last = "no response"
    while len(endpoints) < len(actors):
        if time.monotonic() > deadline:
            missing = ", ".join(sorted(set(actors) - set(endpoints)))
            raise StartError(f"{missing} not ready within {timeout_s:.0f} s: {last}")
        waiting = {call: name for name, call in calls.items() if name not in endpoints}
        done, _ = ray.wait(list(waiting), num_returns=1, timeout=0.5)
        for call in done:
            name = waiting[call]
            try:
                host, port = ray.get(call)
            except ray.exceptions.ActorDiedError as error:
                raise StartError(f"{name} cannot start: {reason_of(error)}") from None
            except ray.exceptions.RayError as error:
                last = f"{name}: {reason_of(error)}"
                failures[name] += isinstance(cause_of(error), (HeadraceError, OSError))
                if failures[name] >= MAX_START_FAILURES:
                    raise StartError(f"{name} cannot start: {reason_of(error)}") from None
                let_pass(POLL_S)
                calls[name] = actors[name].ready.remote(timeout_s, **call_context())
            else:
                endpoints[name] = f"{host}:{port}"
                report(f"{name} is ready on {host}:{port} ({len(endpoints)}/{len(actors)})")
    return endpoints


def reason_of(error: BaseException) -> str:
    """The last line of an error: Ray's messages contain whole tracebacks."""
    lines = [line.strip() for line in str(cause_of(error)).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
