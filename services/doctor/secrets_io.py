"""Finds files with keys and passwords in the folders of a cluster, and certificates."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ..cluster_files_io import home_dir
from ..secured_files import FOLDER
from .facts import CertificateFacts, SecretFileFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SECRET_ENDINGS = (".key", ".secret", ".ray_token", ".keytab", ".jks", ".p12", ".pfx", ".properties")
_SECRET_WORDS = (b"password", b"sasl.jaas", b"PRIVATE KEY", b"secret", b"ssl.keystore.key")
_PUBLIC_NAMES = frozenset(("meta.properties",))
MAX_READ = 1 << 20
DAY_S = 86_400


def secret_facts(data_dirs: Iterable[str]) -> Iterator[SecretFileFacts]:
    """Files below the security folders of data dirs, HEADRACE_HOME and ~/.ray with a secret in them."""
    for path in _files(data_dirs):
        if path.name not in _PUBLIC_NAMES and _has_secret(path):
            yield SecretFileFacts(path=str(path), mode=stat.S_IMODE(path.stat().st_mode))


def certificate_facts(data_dirs: Iterable[str]) -> Iterator[CertificateFacts]:
    """Certificates in PEM files of the same folders; none without the library `cryptography`."""
    try:
        from cryptography import x509
    except ImportError:
        return
    now = datetime.now(UTC)
    for path in _files(data_dirs):
        if path.suffix not in (".pem", ".crt", ".cert"):
            continue
        try:
            found = x509.load_pem_x509_certificates(path.read_bytes()[:MAX_READ])
        except (OSError, ValueError):
            continue
        for certificate in found:
            left = (certificate.not_valid_after_utc - now).total_seconds() / DAY_S
            subject = certificate.subject.rfc4514_string()
            yield CertificateFacts(path=str(path), subject=subject, days_left=round(left, 2))


def _files(data_dirs: Iterable[str]) -> Iterator[Path]:
    folders = [Path(folder).expanduser() / FOLDER for folder in data_dirs]
    folders += [
        folder.parent for folder in folders if folder.parent.name.startswith(("node-", "controller-"))
    ]
    tokens = [Path("~/.ray/auth_token").expanduser()]
    for folder in dict.fromkeys([*folders, home_dir() / "clusters"]):
        try:
            yield from sorted(path for path in folder.iterdir() if path.is_file())
        except OSError:
            continue
    yield from (token for token in tokens if token.is_file())


def _has_secret(path: Path) -> bool:
    if path.name == "auth_token" or path.suffix in _SECRET_ENDINGS[:-1]:
        return True
    try:
        content = path.read_bytes()[:MAX_READ]
    except OSError:
        return False  # which also says that this user cannot read it
    return any(word in content for word in _SECRET_WORDS)
