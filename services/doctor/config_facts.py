"""What the config files of servers require of their machine. JSON-able, but for the reading of `described`.
Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...controller.config import ControllerConfig
from ...storage_node.configs.gateway_config import configured_listeners, parse_listeners
from .facts import CertificateFacts, ReachFacts, SecretFileFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..server.config_file import ServerFile
    from ..server.config_mistakes import Mistake

# Memory that these keys bound; the rest of a process is BASE_BYTES.
_MEMORY_KEYS = (
    "queued.max.request.bytes",
    "queued.max.response.bytes",
    "log.tail.cache.bytes",
    "fetch.cold.max.bytes",
    "log.cleaner.dedupe.buffer.size",
)
BASE, BASE_BYTES = "process", 128 << 20
# Replicas of topics, and the key with the smallest ISR of these topics, if there is one.
REPLICATION_KEYS = {
    "default.replication.factor": "min.insync.replicas",
    "offsets.topic.replication.factor": "",
    "transaction.state.log.replication.factor": "transaction.state.log.min.isr",
}


class MistakeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A mistake in a config file, of the kinds of `config_mistakes`."""

    kind: str
    key: str
    problem: str
    fix: str


class ListenerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An address to listen on, and the key that names it."""

    key: str
    host: str
    port: int


class ConfigFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One config file, and what it refers to. `hosts` are the advertised ones with why they do not resolve
    (empty: they do), `memory_bytes` bounds by key, `replication` numbers of replicas by key, `owners` ids of
    servers by the data dir that has the id. `is_running`: the server of this file runs, and has its ports."""

    path: str
    role: str
    name: str = ""
    server_id: int = -1
    mistakes: tuple[MistakeFacts, ...] = ()
    data_dirs: tuple[str, ...] = ()
    listeners: tuple[ListenerFacts, ...] = ()
    hosts: dict[str, str] = {}
    controllers: tuple[str, ...] = ()
    memory_bytes: dict[str, int] = {}
    replication: dict[str, int] = {}
    owners: dict[str, int] = {}
    reach: tuple[ReachFacts, ...] = ()
    secrets: tuple[SecretFileFacts, ...] = ()
    certificates: tuple[CertificateFacts, ...] = ()
    key_faults: tuple[str, ...] = ()
    is_running: bool = False


def described(path: str, role: str, mistakes: Sequence[Mistake], server: ServerFile | None) -> ConfigFacts:
    """What the file says by itself. Without a server, these are its mistakes alone."""
    found = ConfigFacts(
        path=path,
        role=role,
        mistakes=tuple(
            MistakeFacts(kind=each.kind, key=each.key, problem=each.problem, fix=each.fix)
            for each in mistakes
        ),
    )
    if server is None:
        return found
    config, values = server.config, server.config.to_mapping()
    is_controller = isinstance(config, ControllerConfig)
    replicas = [name for pair in REPLICATION_KEYS.items() for name in pair if name in values]
    return msgspec.structs.replace(
        found,
        name=server.name,
        server_id=config.controller_id if isinstance(config, ControllerConfig) else config.node_id,
        data_dirs=(config.metadata_log_dir,) if isinstance(config, ControllerConfig) else config.log_dirs,
        listeners=tuple(_listeners(server)),
        hosts=dict.fromkeys(_advertised(server), ""),
        controllers=tuple(f"{host}:{port}" for host, port in server.controllers),
        memory_bytes={BASE: BASE_BYTES, **{name: values[name] for name in _MEMORY_KEYS if name in values}},
        replication={
            name: values[name] for name in replicas if is_controller or name != "min.insync.replicas"
        },
    )


def _listeners(server: ServerFile) -> list[ListenerFacts]:
    """Those with a port of their own choice are left out."""
    config = server.config
    found = [("listener.port", config.listener_host, config.listener_port)]
    if isinstance(config, ControllerConfig):
        metrics = "controller.metrics.listener"
    else:
        metrics = "metrics.listener"
        bound = configured_listeners(config, config.listener_host)
        found += [("listeners", each.host, each.port) for each in bound]
    if config.metrics_endpoint is not None:
        found.append((metrics, *config.metrics_endpoint))
    return [ListenerFacts(key=key, host=host, port=port) for key, host, port in found if port]


def _advertised(server: ServerFile) -> list[str]:
    config = server.config
    named = () if isinstance(config, ControllerConfig) else config.advertised_listeners
    listeners = parse_listeners("advertised.listeners", named).values()
    return list(dict.fromkeys(filter(None, (config.host, *(each.host for each in listeners)))))
