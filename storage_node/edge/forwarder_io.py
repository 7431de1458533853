"""Forwards requests of clients to the controller, and its responses to the clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.errors import (
    KafkaError,
    NotControllerError,
    RequestTimedOutError,
    SecurityDisabledError,
)
from ...protocol.messages.control import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsResponse,
)
from ...protocol.messages.registry import (
    ALTER_ROLES,
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    DESCRIBE_CONFIGS,
    DESCRIBE_ROLES,
    INCREMENTAL_ALTER_CONFIGS,
)
from ...protocol.metadata.image import BROKER_RESOURCE
from ...protocol.transport.wire import encode
from ...runtime.clock_io import monotonic_ms
from ..configs.config_answers import answer_configs, cluster_part
from ..configs.dynamic_listeners import names_listeners, refusal_of
from ..configs.logger_configs import alter_loggers, is_logger
from ..configs.logger_levels_io import ProcessLoggers
from .gate import ReducedRequest
from .gateway import OwnRequest
from .token_requests import TOKEN_REQUESTS, signed

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.messages.control import AlterConfigs, IncrementalAlterConfigsRequest, ItemError
    from ...protocol.transport.peers import Request
    from ...protocol.transport.replies import Replies
    from ...runtime.shell_io import TaskOwner
    from ..configs.node_config import NodeConfig
    from ..links.controller_link_io import ControllerLink
    from ..node import StorageNode

DEFAULT_TIMEOUT_MS = 30_000
MAX_TIMEOUT_MS = 300_000
# Bound: how long the controller's response waits until this node's image has the change.
MAX_METADATA_LAG_MS = 5_000
# After this long without a controller, configs are described from the node's own image.
DESCRIBE_TIMEOUT_S = 5.0
_ABOUT_RULES = (DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS, DESCRIBE_ROLES, ALTER_ROLES)
_CHARGED = (CreateTopicsRequest, DeleteTopicsRequest, CreatePartitionsRequest)


class Forwarder:
    """One task per request; the link bounds their number."""

    def __init__(
        self,
        link: ControllerLink,
        replies: Replies,
        core: StorageNode,
        tasks: TaskOwner,
        perform: Callable[[], None],
        check: Callable[[NodeConfig], None],
    ) -> None:
        """`check` loads the key stores of listeners. Errors of it: ConfigError."""
        self._link = link
        self._replies = replies
        self._core = core
        self._tasks = tasks
        self._perform, self._check = perform, check
        self._loggers = ProcessLoggers()

    def start(self, request: Request) -> None:
        """Forward the request; it is answered later."""
        if self._tasks.is_stopping:
            self._replies.reply_error(request, NotControllerError("this node is stopping"))
            return
        if request.api.key == DESCRIBE_CONFIGS.key:
            work = self._describe_configs(request)
        elif request.api.key == INCREMENTAL_ALTER_CONFIGS.key and _concerns_node(request.body):
            work = self._alter_configs(request)
        else:
            work = self._forward(request)
        self._tasks.spawn(work, f"forward {request.api.name}")

    async def _alter_configs(self, request: Request) -> None:
        """Log levels are altered here, and changes of listeners checked; the controller alters the rest."""
        body = request.body
        here = [self._result_of(each, validate_only=body.validate_only) for each in body.resources]
        others = tuple(each for each, mine in zip(body.resources, here, strict=True) if mine is None)
        try:
            found = IncrementalAlterConfigsResponse(())
            if others:
                part = encode(msgspec.structs.replace(body, resources=others))
                found = (await self._link.forward(request.api, part, DEFAULT_TIMEOUT_MS / 1000)).body
            rest = iter(found.results)
            results = tuple(next(rest) if mine is None else mine for mine in here)
            response = msgspec.structs.replace(found, results=results)
            self._core.when_metadata_reaches(
                response.metadata_offset,
                lambda: self._replies.reply(request, response),
                MAX_METADATA_LAG_MS,
                monotonic_ms(),
            )
        except KafkaError as error:
            self._replies.reply_error(request, error)
        self._perform()

    def _result_of(self, alter: AlterConfigs, *, validate_only: bool) -> ItemError | None:
        """The outcome at this node; None: the controller decides."""
        node_id, core = self._core.table.node_id, self._core
        if is_logger(alter.resource):
            return alter_loggers(node_id, alter, self._loggers, validate_only=validate_only)
        if not names_listeners(alter):
            return None
        current = core.image.configs.get((BROKER_RESOURCE, alter.resource.name), {})
        return refusal_of(node_id, alter, current, core.config.own, self._check)

    async def _forward(self, request: Request) -> None:
        """Send the response once this node's image has the change."""
        asked_ms = getattr(request.body, "timeout_ms", DEFAULT_TIMEOUT_MS)
        timeout_s = min(max(asked_ms, 1), MAX_TIMEOUT_MS) / 1000
        try:
            if request.api in _ABOUT_RULES and self._core.authorization.authorizer is None:
                raise SecurityDisabledError("No Authorizer is configured.")
            body = (await self._link.forward(request.api, _body_of(request), timeout_s)).body
            offset = getattr(body, "metadata_offset", -1)
            self._core.when_metadata_reaches(
                offset,
                lambda: self._replies.reply(request, body),
                MAX_METADATA_LAG_MS,
                monotonic_ms(),
            )
        except KafkaError as error:
            self._replies.reply_error(request, error)
        self._perform()

    async def _describe_configs(self, request: Request) -> None:
        """Describe the configs with an image as new as the controller's; without a controller with the
        present one."""
        core = self._core
        try:
            core.check_caught_up()
            part, of_cluster = cluster_part(request.body), DescribeConfigsResponse(())
            try:
                body = encode(part)
                of_cluster = (await self._link.forward(request.api, body, DESCRIBE_TIMEOUT_S)).body
            except (NotControllerError, RequestTimedOutError):
                if part.resources:
                    raise

            def answer() -> None:
                node_id = core.table.node_id
                response = answer_configs(
                    core.image, core.config, node_id, request.body, of_cluster, self._loggers
                )
                self._replies.reply(request, response)

            core.when_metadata_reaches(
                of_cluster.metadata_offset, answer, MAX_METADATA_LAG_MS, monotonic_ms()
            )
        except KafkaError as error:
            self._replies.reply_error(request, error)
        self._perform()


def _concerns_node(body: IncrementalAlterConfigsRequest) -> bool:
    return any(is_logger(each.resource) or names_listeners(each) for each in body.resources)


def _body_of(request: Any) -> bytes:
    """The request as the controller gets it: with the client's identity, for quotas and delegation tokens.
    Requests of the gateway have the one for quotas.

    Errors: DelegationTokenRequestNotAllowedError.
    """
    raw: bytes
    if isinstance(request.body, TOKEN_REQUESTS):
        raw = encode(signed(request.body, request.peer.identity))
        return raw
    is_gateways = isinstance(request, OwnRequest) and not isinstance(request, ReducedRequest)
    if is_gateways or not isinstance(request.body, _CHARGED):
        raw = request.raw_body
        return raw
    client = {
        "user": request.peer.identity.principal.name,
        "client_id": request.peer.client_id,
        "is_lenient": False,
    }
    raw = encode(msgspec.structs.replace(request.body, **client))
    return raw
