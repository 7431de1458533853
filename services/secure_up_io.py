"""The certificates and the first user of a secured cluster on Ray."""

from __future__ import annotations

import asyncio
import secrets
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from ..protocol.errors import ConfigError, error_from_code
from ..protocol.messages.registry import ALTER_USER_SCRAM_CREDENTIALS
from ..protocol.security.scram import SALT_BYTES
from ..protocol.security.server_keys import NODE, ServerName
from ..protocol.transport.dealer_io import Connection
from ..protocol.transport.security import ConnectionSecurity
from ..runtime.extras import missing_extra
from ..runtime.server_security_config import SASL_SSL
from ..runtime.server_security_io import read_own_keys
from .local_security import ADMIN, Security
from .private_files_io import write_private
from .secure_up import kafka_client_files
from .secured_files import CA_FILE, CA_KEY_FILE, CLIENT_FILE, FOLDER, SERVER_FILE, properties
from .server_keys_io import ServerKeyFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .cluster_files_io import ClusterFile

TIMEOUT_S = 30.0


def key_folder(cluster_file: ClusterFile) -> ServerKeyFolder:
    """The folder with the keys of a cluster's servers, beside their data."""
    return ServerKeyFolder(Path(cluster_file.data_dir) / FOLDER)


def check_still_secured(cluster_file: ClusterFile) -> None:
    """Errors: ConfigError if the cluster of this data was secured before, and would now start without
    security."""
    path = key_folder(cluster_file).folder / CLIENT_FILE
    if path.exists() and "native.security.protocol" not in cluster_file.config:
        raise ConfigError(
            f"the data in {cluster_file.data_dir} is that of a secured cluster: start it with --secure;"
            " -X native.security.protocol=PLAINTEXT starts it without security"
        )


def make_certificates(
    cluster_file: ClusterFile, machines: Iterable[str], report: Callable[[str], None]
) -> None:
    """Create the certificate authority, and a server certificate for the names and addresses of the machines,
    unless they exist or a key store is configured. Errors: ConfigError, OSError."""
    if has_own_authority(cluster_file) and not (key_folder(cluster_file).folder / SERVER_FILE).exists():
        ca_file = issue_certificate(cluster_file, machines)
        report(f"{ca_file} is the certificate authority that Kafka clients must trust")


def has_own_authority(cluster_file: ClusterFile) -> bool:
    """Whether `headrace up --secure` made the certificate of the servers."""
    return cluster_file.config.get("ssl.keystore.location") == str(
        key_folder(cluster_file).folder / SERVER_FILE
    )


def issue_certificate(cluster_file: ClusterFile, machines: Iterable[str]) -> Path:
    """A new certificate of the servers with a new key, by the authority of the cluster, which is made if
    missing; running servers load it within about a second. Returns the authority's file. Errors: ConfigError,
    OSError."""
    try:
        from .certificates import CertificateAuthority
    except ImportError as error:
        raise ConfigError(str(missing_extra(error, "headrace up --secure", "security"))) from error
    folder = key_folder(cluster_file).folder
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    now = datetime.now(UTC)
    ca_file, ca_key_file = folder / CA_FILE, folder / CA_KEY_FILE
    if ca_key_file.exists():
        authority = CertificateAuthority.from_pem(ca_file.read_text(), ca_key_file.read_text())
    else:
        authority = CertificateAuthority.create(f"headrace {cluster_file.cluster}", now)
        root = authority.to_pem()
        write_private(ca_file, root.chain)
        write_private(ca_key_file, root.key)
    own = (socket.gethostname(), socket.getfqdn(), "localhost", *_own_addresses())
    hosts = dict.fromkeys(host for host in (*own, *machines) if host)
    issued = authority.issue("headrace", list(hosts), now)
    write_private(folder / SERVER_FILE, issued.key + issued.chain)
    return ca_file


def _own_addresses() -> list[str]:
    """All addresses of this machine: in a Ray that headrace starts, its address is 127.0.0.1."""
    families = (socket.AF_INET, socket.AF_INET6)
    found = [
        each.address for faces in psutil.net_if_addrs().values() for each in faces if each.family in families
    ]
    return sorted({address for address in found if "%" not in address} | {"127.0.0.1", "::1"})


def make_first_user(
    cluster_file: ClusterFile, endpoints: Mapping[str, str], report: Callable[[str], None]
) -> None:
    """Make the user `admin` with a new password, and files with the configs of its clients, mode 0600, unless
    they exist. Errors: those of the cluster."""
    folder = key_folder(cluster_file)
    path = folder.folder / CLIENT_FILE
    first = f"{NODE}-1"
    if (
        cluster_file.config.get("native.security.protocol") != SASL_SSL
        or path.exists()
        or first not in endpoints
    ):
        return
    security = Security(users={ADMIN: secrets.token_urlsafe()})
    own = read_own_keys(folder.key_file(ServerName(NODE, 1)))
    connections = ConnectionSecurity(server_keys=folder.trusted().keys_of, own_keys=own.keys)
    host, _, port = endpoints[first].rpartition(":")
    asyncio.run(make_users(host.strip("[]"), int(port), security, connections))
    if (folder.folder / CA_FILE).exists():
        for name, text in kafka_client_files(str(folder.folder), security.users[ADMIN]).items():
            write_private(folder.folder / name, text)
    # Order: this file is written last, so that its existence shows that the user exists.
    write_private(path, properties(security.client_config(str(folder.trusted_file), {})))
    report(f"{path} has the client config of the user {ADMIN}; commands of this machine use it")


async def make_users(
    host: str, port: int, security: Security, connections: ConnectionSecurity | None
) -> None:
    """Create the users, or set their passwords. Errors: those of the cluster."""
    connection = await Connection.open(
        host, port, client_id="first-user", timeout_s=TIMEOUT_S, security=connections
    )
    try:
        for request in security.credentials(lambda: secrets.token_bytes(SALT_BYTES)):
            response = await connection.request(ALTER_USER_SCRAM_CREDENTIALS, request, timeout_s=TIMEOUT_S)
            for result in response.body.results:
                if result.error_code:
                    raise error_from_code(result.error_code, result.error_detail)
    finally:
        connection.close()
