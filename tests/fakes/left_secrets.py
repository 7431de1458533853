"""Searches what a run leaves behind for its secrets: output, logs, errors and files."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path


def forms(secret: bytes) -> set[bytes]:
    """The secret as it is, in hexadecimal, and inside of base64 at any place."""
    found = {secret, secret.hex().encode(), secret.hex().upper().encode()}
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + secret)
        # the first and last characters also depend on what is around
        middle = text[(0, 2, 3)[shift] :].rstrip(b"=")[:-1]
        found |= {middle, middle.translate(bytes.maketrans(b"+/", b"-_"))}
    return found


def leaks(secrets: Mapping[str, bytes], left: Iterable[tuple[str, bytes]]) -> list[str]:
    """`secret: place` for each secret that is in one of the places; never the secret itself."""
    wanted = [(name, form) for name, secret in secrets.items() for form in forms(secret)]
    return sorted({f"{name}: {place}" for place, data in left for name, form in wanted if form in data})


def files_below(folder: Path, *stores: Path) -> Iterator[tuple[str, bytes]]:
    """The path and content of each file outside of the `stores`."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(path.is_relative_to(store) for store in stores):
            yield str(path), path.read_bytes()
