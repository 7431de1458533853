"""Reads the config file of a server, and the files, folders and hosts that it names."""

from __future__ import annotations

import stat
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...controller.config import ControllerConfig
from ...protocol.errors import HeadraceError
from ...protocol.security.server_keys import CONTROLLER, NODE, ServerName
from ...runtime.config_references_io import resolve_references
from ...runtime.server_security_io import server_security
from ...storage_node.configs.gateway_config import parse_listeners, security_of
from ...storage_node.log.checkpoints import CorruptFileError, parse_properties
from ...storage_node.log.names import META_PROPERTIES
from ..kafka_listener.tls_stores_io import TlsStores
from ..server.config_mistakes import has_secret, mistakes_of
from ..server.control_io import ask
from ..telemetry.endpoint_io import Certificate
from .config_facts import described
from .facts import CertificateFacts, SecretFileFacts
from .ports_io import advertised_facts, reach_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ...runtime.server_security_config import ServerSecurityConfig
    from ...storage_node.configs.listener_security import ListenerSecurity
    from ..server.config_file import ServerFile
    from .config_facts import ConfigFacts

DAY_S = 86_400
ANY_PORT = 1


def config_facts(path: str, overrides: Mapping[str, str]) -> ConfigFacts:
    """The facts of one file; `overrides` precede its keys. Errors: OSError, UnicodeDecodeError."""
    text = Path(path).read_text()
    role, mistakes, server = mistakes_of(path, text, overrides, resolve_references)
    found = described(path, role, mistakes, server)
    if server is None:
        return found
    certificates, faults = _keys(path, server)
    return msgspec.structs.replace(
        found,
        hosts={host: advertised_facts("", "", f"{host}:{ANY_PORT}").error for host in found.hosts},
        owners=dict(_owners(found.data_dirs)),
        reach=reach_facts(found.controllers),
        secrets=tuple(_modes([path] if has_secret(role, text) else [], server)),
        certificates=certificates,
        key_faults=faults,
        is_running=_is_running(server.directory),
    )


def _keys(path: str, server: ServerFile) -> tuple[tuple[CertificateFacts, ...], tuple[str, ...]]:
    """When the first certificate of each chain expires, and what is wrong with keys: all are loaded as the
    server does."""
    certificates, faults = list[CertificateFacts](), list[str]()
    for place, load in _loaders(server):
        try:
            expiry_s = load()
        except HeadraceError as error:
            faults.append(str(error))
            continue
        if expiry_s is not None:
            days = round((expiry_s - time.time()) / DAY_S, 2)
            certificates.append(CertificateFacts(path=place or path, subject="", days_left=days))
    return tuple(certificates), tuple(faults)


def _loaders(server: ServerFile) -> Iterator[tuple[str, Callable[[], float | None]]]:
    """Files of keys (empty: the config has them itself), each with a function that loads them and returns
    when they expire. Errors of the functions: ConfigError."""
    config = server.config
    if isinstance(config, ControllerConfig):
        own = ServerName(CONTROLLER, config.controller_id)
    else:
        own = ServerName(NODE, config.node_id)
        for name in parse_listeners("listeners", config.listeners):
            security = security_of(config, name)
            if security.protocol.has_tls:
                yield security.config.ssl_keystore_location, partial(_tls_expiry_s, security)
    if config.metrics_ssl_certificate_file:
        yield config.metrics_ssl_certificate_file, lambda: Certificate(config).expiry_s
    if config.is_encrypted:
        yield config.server_key_file, partial(_check_server_key, config, own)


def _tls_expiry_s(security: ListenerSecurity) -> float | None:
    return TlsStores(security).expiry_s


def _check_server_key(config: ServerSecurityConfig, name: ServerName) -> None:
    server_security(config, name)


def _modes(files: list[str], server: ServerFile) -> Iterator[SecretFileFacts]:
    """Permissions of these files, and of the key stores of the server. The key of a server among servers is
    refused when it is loaded."""
    config = server.config
    files = [*files, config.metrics_ssl_key_file]
    if not isinstance(config, ControllerConfig):
        names = parse_listeners("listeners", config.listeners)
        files += [security_of(config, name).config.ssl_keystore_location for name in names]
    for file in dict.fromkeys(filter(None, files)):
        try:
            yield SecretFileFacts(path=file, mode=stat.S_IMODE(Path(file).stat().st_mode))
        except OSError:
            continue  # reported when it was loaded


def _owners(data_dirs: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """The ids of the servers of dirs that have been used."""
    for data_dir in data_dirs:
        try:
            properties = parse_properties(Path(data_dir, META_PROPERTIES).read_bytes())
            yield data_dir, int(properties["node.id"])
        except (OSError, CorruptFileError, KeyError, ValueError):
            continue  # a new dir; a server says what is wrong with a damaged file


def _is_running(directory: str) -> bool:
    try:
        return bool(ask(directory, "status").get("pid"))
    except (HeadraceError, OSError, ValueError):
        return False
