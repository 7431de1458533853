"""Whether one log dir's disk has run out of room, and a reserve for what must be written all the same.

A disk that is full is not a bad disk: nothing that was acknowledged is in doubt. So appends are refused,
before they touch the disk, until `look` finds that there is room again; and the small files that deletion,
truncation, checkpoints and a clean end need get the room of the reserve, a file that is given away
when the disk runs full and taken back before anything is appended again. See ADR 19.
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
    """The room in one log dir. `ran_out` and `give_reserve` may be called on any thread, the rest on the
    owner's.

    Invariant: while `full` is None the reserve is there, or it has 0 bytes, or `take_reserve` was not called.
    """

    __slots__ = ("_directory", "_files", "_reserve_bytes", "full")

    def __init__(self, files: Files, directory: str, reserve_bytes: int) -> None:
        """`files` is not guarded: what happens here takes nothing offline."""
        self.full: str | None = None  # in words, why nothing is appended
        self._files = files
        self._directory = directory
        self._reserve_bytes = reserve_bytes

    def check(self) -> None:
        """DiskFullError while appends are refused."""
        if self.full is not None:
            raise DiskFullError(self.full)

    def ran_out(self, error: DiskFullError) -> None:
        """A write found no room."""
        free = "?"
        with contextlib.suppress(KafkaStorageError):
            free = str(self._files.space(self._directory).usable)
        self.full = self._in_words(free, error)

    def give_reserve(self) -> bool:
        """Make room for something small; False if there is no reserve."""
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
        """Set the reserve aside. Where there is no room for it, nothing is appended."""
        if not self._reserve_bytes:
            return
        try:
            self._resize(self._reserve_bytes)
        except DiskFullError as error:
            self.ran_out(error)

    def look(self) -> bool:
        """Whether a disk that was full has room again: the reserve is there, and as much besides, so that
        it is not full again at once. Without a reserve only the next append can tell."""
        if self.full is None:
            return False
        self.full = None
        self.take_reserve()
        free = self._files.space(self._directory).usable
        if free < self._reserve_bytes:
            self.full = self._in_words(str(free), "not enough to go on")
        return not self.full

    def _resize(self, size: int) -> None:
        """Order: an allocation that fails leaves nothing of what it got, which others need more."""
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
