"""The secret of a cluster on Ray: its file on this machine, and its digest in Ray's key-value store.

Import of Ray: in functions, as in all modules that commands load.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from ..protocol.errors import ClusterAuthorizationFailedError
from ..runtime.control_secret import SECRET_BYTES, digest_of
from .cluster_files_io import secret_file
from .private_files_io import write_private

if TYPE_CHECKING:
    from collections.abc import Callable


def own_secret(cluster: str) -> str:
    """The secret of the file; empty without a file. Errors: OSError."""
    try:
        return secret_file(cluster).read_text().strip()
    except FileNotFoundError:
        return ""


def make_secret(cluster: str, namespace: str, report: Callable[[str], None], *, is_running: bool) -> str:
    """The secret of a starting or running cluster; generates one, with a file, if there is none.

    The secret of a running cluster that was started on another machine is not changed: returns an empty text,
    with a note. Called while
    Ray is connected, before servers are started. Errors: OSError.
    """
    from ..runtime.control_secret_actor import read_digest, write_digest

    secret, digest = own_secret(cluster), read_digest(namespace)
    if is_running and digest is not None:
        if not secret or digest_of(secret) != digest:
            report(f"warning: {_elsewhere(cluster)}")
        return secret
    if not secret:
        secret = secrets.token_hex(SECRET_BYTES)
        write_private(secret_file(cluster), secret + "\n")
    write_digest(namespace, digest_of(secret))
    return secret


def checked_secret(cluster: str, namespace: str) -> str:
    """The secret, for a change of a running cluster. Errors: ClusterAuthorizationFailedError."""
    from ..runtime.control_secret_actor import read_digest

    secret, digest = own_secret(cluster), read_digest(namespace)
    if digest is not None and digest_of(secret) != digest:
        raise ClusterAuthorizationFailedError(_elsewhere(cluster))
    return secret


def replace_secret(cluster: str, namespace: str) -> None:
    """Replace the secret of the cluster; its servers keep running. Errors: OSError.

    Order: the file first. If the digest is not written then, the next call replaces both.
    """
    from ..runtime.control_secret_actor import write_digest

    secret = secrets.token_hex(SECRET_BYTES)
    write_private(secret_file(cluster), secret + "\n")
    write_digest(namespace, digest_of(secret))


def forget_secret(namespace: str) -> None:
    """Delete the secret of a cluster that has ended."""
    from ..runtime.control_secret_actor import delete_digest

    delete_digest(namespace)


def _elsewhere(cluster: str) -> str:
    return (
        f"{secret_file(cluster)} does not have the secret of cluster {cluster!r}: copy it from where"
        f" `headrace up` started it; `headrace security rotate --cluster {cluster} --secret` makes a new one"
    )
