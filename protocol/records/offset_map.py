"""The last offset of each key in bounded memory. Equivalent to `_offset_map.pxi`.

A hash table with open addressing. A slot has a 128-bit hash instead of the key, and the offset: three words
of 64 bits, all 0 if free. Two keys with the same hash would be treated as one, and the older record lost. The
hash is SipHash with a secret that each process draws, so producers cannot search for collisions, and n keys
collide by chance with probability n^2 / 2^129: 10^-20 for a thousand million keys, far less than an
undetected disk error. Source: Kafka SkimpyOffsetMap.java (MD5, 24 bytes per entry); Aumasson and Bernstein,
SipHash (2012).
"""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING

from ..errors import InvalidRecordError, KafkaError
from ..model import NO_OFFSET
from .hashing import siphash128
from .header import CONTROL_BIT, TRANSACTIONAL_BIT, read_batch_header
from .interfaces import LOAD_FACTOR as LOAD_FACTOR  # imported from here by _batch.pyx
from .opening import MAX_DECOMPRESSED_BYTES, open_batch
from .record_bytes import walk_records
from .settings import INT64_MAX

if TYPE_CHECKING:
    from .header import BatchHeader, Buffer

SLOT_BYTES = 24
# Bound: a hash's first slot is computed from 32 of its bits.
MAX_SLOTS = (1 << 32) - 1
_WORDS = 3  # of a slot: the hash low and high, the offset + 1


def slots_and_capacity(memory_bytes: int, load_factor: float) -> tuple[int, int]:
    """Number of slots, and of keys that may be stored. Errors: ValueError, see
    interfaces.RecordCodec.offset_map."""
    slots = memory_bytes // SLOT_BYTES
    if not 0 < load_factor < 1:
        raise ValueError(f"a load factor lies between 0 and 1, not {load_factor}")
    capacity = int(slots * load_factor)
    if capacity < 1 or slots > MAX_SLOTS:
        raise ValueError(f"an offset map of {memory_bytes} bytes has room for {capacity} keys")
    return slots, capacity


def check_offsets(header: BatchHeader) -> None:
    """Errors: InvalidRecordError if the batch has offsets that a log cannot have."""
    if header.base_offset < 0 or header.last_offset > INT64_MAX:
        raise InvalidRecordError(f"a batch of the offsets {header.base_offset} to {header.last_offset}")


class PythonOffsetMap:
    """See interfaces.OffsetMap."""

    def __init__(self, memory_bytes: int, load_factor: float, hash_key: bytes) -> None:
        self._slots, self.capacity = slots_and_capacity(memory_bytes, load_factor)
        self._hash_key = hash_key
        self.memory_bytes = self._slots * SLOT_BYTES
        self.clear()

    def __len__(self) -> int:
        return self._count

    @property
    def latest_offset(self) -> int:
        return self._latest_offset

    def clear(self) -> None:
        self._table = array("Q", bytes(self.memory_bytes))
        self._count, self._latest_offset = 0, NO_OFFSET

    def advance(self, offset: int) -> None:
        self._latest_offset = max(self._latest_offset, offset)

    def get(self, key: bytes) -> int:
        return self._table[self._find(siphash128(self._hash_key, key)) + 2] - 1

    def hash_of(self, key: bytes) -> bytes:
        return struct.pack("<QQ", *siphash128(self._hash_key, key))

    def _find(self, key_hash: tuple[int, int]) -> int:
        """The first word of the hash's slot, or of the free slot for it.

        Invariant: there is a free slot, as capacity < slots.
        """
        low, high = key_hash
        slot = (low >> 32) * self._slots >> 32
        while True:
            at = slot * _WORDS
            if not self._table[at + 2] or (self._table[at], self._table[at + 1]) == (low, high):
                return at
            slot = (slot + 1) % self._slots

    def _put(self, key_hash: tuple[int, int], offset: int) -> bool:
        """False for a new key when the map is full."""
        at = self._find(key_hash)
        if not self._table[at + 2]:
            if self._count == self.capacity:
                return False
            self._table[at], self._table[at + 1] = key_hash
            self._count += 1
        self._table[at + 2] = max(self._table[at + 2], offset + 1)
        return True

    def add_batch(
        self,
        batch: Buffer,
        start_offset: int = 0,
        *,
        check_crc: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> bool:
        if start_offset < 0:
            raise ValueError(f"an offset map starts at offset {start_offset}")
        header, payload = open_batch(
            batch, check_crc=check_crc, is_dense=False, max_decompressed_bytes=max_decompressed_bytes
        )
        check_offsets(header)
        # Order: the whole batch is validated before any key is added.
        keys = [
            (siphash128(self._hash_key, record.key), record.offset)
            for record in walk_records(header, payload)
            if record.key is not None and record.offset >= start_offset and not header.is_control
        ]
        if self._count and self._count + len(keys) > self.capacity:
            return False
        for key_hash, offset in keys:
            if not self._put(key_hash, offset):
                self.advance(offset - 1)
                return False
        if header.last_offset >= start_offset:
            self.advance(header.last_offset)
        return True

    def add_run(
        self,
        data: Buffer,
        at: int,
        start_offset: int = 0,
        *,
        check_crc: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> tuple[int, int]:
        view, records = memoryview(data), 0
        if start_offset < 0 or not 0 <= at <= len(view):
            raise ValueError(f"an offset map starts at offset {start_offset}, at byte {at} of {len(view)}")
        while at < len(view):
            try:
                header = read_batch_header(view, at)
                if header.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT) or header.record_count == 0:
                    break
                if not self._count and header.record_count > self.capacity:
                    break
                if not self.add_batch(
                    view[at : at + header.size_bytes],
                    start_offset,
                    check_crc=check_crc,
                    max_decompressed_bytes=max_decompressed_bytes,
                ):
                    break
            except KafkaError:
                break
            at, records = at + header.size_bytes, records + header.record_count
        return at, records
