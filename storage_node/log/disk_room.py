"""Whether the disk of a log dir is full, and a reserve for small files.

A full disk is not a failed disk: acknowledged records are safe. So appends are refused, before they touch the
disk, until `look` finds that there is room again. The small files that deletion, truncation, checkpoints and
a clean shutdown write get the space of the reserve, a file that is emptied when the disk is full, and
allocated again before anything is appended. See ADR 19.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ...protocol.errors import KafkaStorageError
from ...runtime.files.file_layer import DiskFullError
from . import names

if TYPE_CHECKING:
    from ...runtime.files.file_layer import Files


class DiskRoom:
    """`ran_out` and `give_reserve` may be called on any thread, the rest on the owner's.

    Invariant: while `full` is None the reserve is allocated, or it has 0 bytes, or `take_reserve` was not
    called.
    """

    __slots__ = ("_directory", "_files", "_reserve_bytes", "full")

    def __init__(self, files: Files, directory: str, reserve_bytes: int) -> None:
        """`files` is not guarded: no error here takes the log dir offline."""
        self.full: str | None = None  # why appends are refused
        self._files = files
        self._directory = directory
        self._reserve_bytes = reserve_bytes

    def check(self) -> None:
        """Errors: DiskFullError while appends are refused."""
        if self.full is not None:
            raise DiskFullError(self.full)

    def ran_out(self, error: DiskFullError) -> None:
        free = "?"
        with contextlib.suppress(KafkaStorageError):
            free = str(self._files.space(self._directory).usable)
        self.full = self._in_words(free, error)

    def give_reserve(self) -> bool:
        """Free the reserve for a small file; False if there is none."""
        if not self._reserve_bytes:
            return False
        try:
            if not self._files.size(self._path):
                return False
            self._resize(0)
        except KafkaStorageError:
            return False
        return True

    def take_reserve(self) -> None:
        """Allocate the reserve; without room for it, appends are refused."""
        if not self._reserve_bytes:
            return
        try:
            self._resize(self._reserve_bytes)
        except DiskFullError as error:
            self.ran_out(error)

    def look(self) -> bool:
        """Whether a full disk has room again: for the reserve, and as much besides, so that it is not full
        again at once. Without a reserve the next append shows it."""
        if self.full is None:
            return False
        self.full = None
        self.take_reserve()
        free = self._files.space(self._directory).usable
        if free < self._reserve_bytes:
            self.full = self._in_words(str(free), "not enough to accept records again")
        return not self.full

    def _resize(self, size: int) -> None:
        """Order: a failed allocation is undone, because other files need the space."""
        file = self._files.open(self._path, create=True)
        try:
            if not size:
                file.truncate(0)
                return
            try:
                file.allocate(size)
            except DiskFullError:
                file.truncate(0)
                raise
        finally:
            file.close()

    def _in_words(self, free: str, why: object) -> str:
        return f"the disk of {self._directory} is full: {free} bytes free ({why})"

    @property
    def _path(self) -> str:
        return f"{self._directory}/{names.RESERVE}"
