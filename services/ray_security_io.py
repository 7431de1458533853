"""`headrace security`: keys, secrets and certificates of a cluster on Ray, and their replacement."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..protocol.errors import ConfigError
from ..protocol.security.server_keys import FINGERPRINT_DIGITS, ServerName, server_name
from ..runtime.control_secret import digest_of
from ..runtime.server_security_config import PLAINTEXT
from ..runtime.tracing.control_io import call_context
from . import ray_host
from .cluster_files_io import cluster_lock, ray_token_file, read_cluster_file, secret_file
from .cluster_secret_io import checked_secret, own_secret, replace_secret
from .key_rotation import KeyRotation
from .ray_session import gather, is_reachable, joined, machine_addresses
from .secure_up_io import has_own_authority, issue_certificate, key_folder
from .secured_files import CA_FILE, SERVER_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from .cluster_files_io import ClusterFile
    from .server_keys_io import ServerKeyFolder

STOP_TIMEOUT_S = 20.0
COLUMNS = ("what", "fingerprint", "since", "until", "detail")


class RayServers:
    """See RunningServers."""

    def __init__(self, ray: Any, cluster_file: ClusterFile, secret: str) -> None:
        self._ray, self._cluster_file, self._secret = ray, cluster_file, secret
        self._namespace = ray_host.namespace_of(cluster_file.cluster)

    def statuses(self) -> dict[ServerName, dict[str, Any]]:
        found = ray_host.statuses_of(self._ray, self._cluster_file)
        silent = {"state": "silent", "detail": "no actor has this name"}
        return {
            server_name(each): found.get(each, silent) for each in ray_host.server_names(self._cluster_file)
        }

    def restart(self, name: ServerName) -> None:
        """A failed call is visible in the status of the server."""
        actor = self._ray.get_actor(str(name), self._namespace)
        restarting = actor.restart.remote(self._secret, STOP_TIMEOUT_S, **call_context())
        gather(self._ray, {str(name): restarting}, STOP_TIMEOUT_S + 2)


def rotate(
    cluster: str,
    report: Callable[[str], None],
    *,
    keys: bool,
    secret: bool,
    certificates: bool,
    timeout_s: float,
    progress: Callable[[int, int], None],
) -> None:
    """Replace keys, secret or certificates of a running cluster. Errors: RotationError, ConfigError, those of
    Ray."""
    with cluster_lock(cluster):
        cluster_file = read_cluster_file(cluster)
        if keys and cluster_file.config.get("native.security.protocol", PLAINTEXT) == PLAINTEXT:
            raise ConfigError(
                f"the servers of cluster {cluster!r} have no keys: native.security.protocol is {PLAINTEXT}"
            )
        if certificates and not has_own_authority(cluster_file):
            raise ConfigError(
                f"the certificates of cluster {cluster!r} are not those of `up --secure`: replace the"
                " file of ssl.keystore.location, which servers load within about a second"
            )
        namespace = ray_host.namespace_of(cluster)
        with joined(cluster_file.ray_address, namespace, cluster_file.ray_env) as ray:
            if secret:
                replace_secret(cluster, namespace)
                report(f"the cluster has a new secret: {secret_file(cluster)}")
            if certificates:
                issue_certificate(cluster_file, machine_addresses(ray))
                path = key_folder(cluster_file).folder / SERVER_FILE
                report(f"{path} is new: listeners use it for new connections within about a second")
            if keys:
                servers = RayServers(ray, cluster_file, checked_secret(cluster, namespace))
                KeyRotation(key_folder(cluster_file), servers, report, timeout_s, progress).run()


def security_status(cluster: str) -> list[dict[str, Any]]:
    """Keys, secrets and certificates with fingerprints and ages, but no secret values. Rows of COLUMNS."""
    cluster_file = read_cluster_file(cluster)
    statuses: Mapping[str, Mapping[str, Any]] = {}
    if is_reachable(cluster_file.ray_address):
        with joined(cluster_file.ray_address, ray_host.namespace_of(cluster), cluster_file.ray_env) as ray:
            statuses = ray_host.statuses_of(ray, cluster_file)
    return [*_secrets(cluster_file), *_keys(cluster_file, statuses), *_certificates(cluster_file)]


def _secrets(cluster_file: ClusterFile) -> Iterator[dict[str, Any]]:
    secret = own_secret(cluster_file.cluster)
    digest = digest_of(secret)[:FINGERPRINT_DIGITS] if secret else None
    yield _row(
        "secret of the cluster",
        digest,
        secret_file(cluster_file.cluster),
        "" if secret else "not on this machine",
    )
    mode = cluster_file.ray_env.get("RAY_AUTH_MODE")
    yield _row("token of Ray", None, ray_token_file(cluster_file.cluster), f"RAY_AUTH_MODE={mode}")


def _keys(cluster_file: ClusterFile, statuses: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    if cluster_file.config.get("native.security.protocol", PLAINTEXT) == PLAINTEXT:
        return
    folder = key_folder(cluster_file)
    for name in map(server_name, ray_host.server_names(cluster_file)):
        status = statuses.get(str(name), {})
        running = (status.get("security") or {}).get("public_key")
        yield _row(f"key of {name}", *_key(folder, name), _use(folder, name, running, status))


def _key(folder: ServerKeyFolder, name: ServerName) -> tuple[str | None, Path]:
    path = folder.key_file(name)
    return (folder.public_key(name)[:FINGERPRINT_DIGITS] if path.exists() else None), path


def _use(folder: ServerKeyFolder, name: ServerName, running: str | None, status: Mapping[str, Any]) -> str:
    if running is None:
        return f"{name} does not answer: {status.get('detail') or status.get('state') or 'it does not run'}"
    trusted = len(folder.trusted().keys_of(str(name)))
    if running != folder.public_key(name):
        return f"not in use: {name} runs with {running[:FINGERPRINT_DIGITS]}"
    return "in use" if trusted == 1 else "in use; being replaced"


def _certificates(cluster_file: ClusterFile) -> Iterator[dict[str, Any]]:
    if not has_own_authority(cluster_file):
        return
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    for what, name in (("certificate authority", CA_FILE), ("certificate of the servers", SERVER_FILE)):
        path = key_folder(cluster_file).folder / name
        text = path.read_text()
        found = x509.load_pem_x509_certificate(text[text.index("-----BEGIN CERTIFICATE-----") :].encode())
        digest = found.fingerprint(hashes.SHA256()).hex()[:FINGERPRINT_DIGITS]
        yield {**_row(what, digest, path, str(path)), "until": found.not_valid_after_utc.isoformat()}


def _row(what: str, fingerprint: str | None, path: Path, detail: str) -> dict[str, Any]:
    since = datetime.fromtimestamp(path.stat().st_mtime, UTC) if path.exists() else None
    text = None if since is None else since.isoformat(timespec="seconds")
    return {"what": what, "fingerprint": fingerprint, "since": text, "until": None, "detail": detail}
