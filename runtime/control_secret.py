"""The secret of a cluster that its operators show in calls of its actors that change something. Pure.

Ray's key-value store has the digest of the secret alone; the secret is in a file of the operator, mode 0600.
Source: docs/adr/0049-secret-of-the-actors.md.
"""

from __future__ import annotations

import hashlib
import hmac

from ..protocol.errors import ClusterAuthorizationFailedError

SECRET_BYTES = 32


def digest_of(secret: str) -> str:
    """SHA-256, hexadecimal. The secret is random, so that a slow hash would not add anything."""
    return hashlib.sha256(secret.encode()).hexdigest()


def check_secret(given: str, digest: str | None, call: str) -> None:
    """`digest`: of the secret of the cluster, None if it has none; `call`: what was called, for the error.

    Errors: ClusterAuthorizationFailedError.
    """
    if digest is None:
        raise ClusterAuthorizationFailedError(
            f"{call}: this cluster has no secret on its Ray yet: `headrace up` makes one"
        )
    if not hmac.compare_digest(digest_of(given), digest):
        what = "another secret than that of the cluster" if given else "no secret of the cluster"
        raise ClusterAuthorizationFailedError(
            f"{call}: the caller has {what}; it is in clusters/NAME.secret below HEADRACE_HOME (~/.headrace),"
            " on the machine and of the user that ran `headrace up`"
        )
