"""The digest of a cluster's secret in Ray's key-value store, where all of its actors find it."""

from __future__ import annotations

from typing import Any

from ray.experimental import internal_kv

from .control_secret import check_secret

_KEYS = b"headrace"


class SecretCheck:
    """Checks the calls of an actor. The digest is read at each call: it may be replaced."""

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace, self._name = namespace, name

    def __call__(self, secret: str, call: str) -> None:
        """Errors: ClusterAuthorizationFailedError."""
        check_secret(secret, read_digest(self._namespace), f"`{call}` of {self._name}")


def read_digest(namespace: str) -> str | None:
    """That of the cluster with this Ray namespace; None without one."""
    found: Any = internal_kv._internal_kv_get(_key(namespace), namespace=_KEYS)  # noqa: SLF001 - as Ray Serve
    return None if found is None else str(found, "ascii")


def write_digest(namespace: str, digest: str) -> None:
    """The secret of this digest is that of the cluster from now on."""
    internal_kv._internal_kv_put(  # noqa: SLF001 - as above
        _key(namespace), digest.encode(), overwrite=True, namespace=_KEYS
    )


def delete_digest(namespace: str) -> None:
    """The cluster has ended."""
    internal_kv._internal_kv_del(_key(namespace), namespace=_KEYS)  # noqa: SLF001 - as above


def _key(namespace: str) -> bytes:
    return b"secret-digest:" + namespace.encode()
