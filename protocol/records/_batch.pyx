# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled codec of record batches: the same bytes and the same error classes as `batch.py`.

Memory safety. Bytes are read through a plain pointer, so every read is checked explicitly: `Cursor.at` never
passes `Cursor.end`, which never passes the end of the buffer that `Py_buffer` keeps locked during the walk.
Bytes are written only after `_reserve` has allocated memory for their exact size, computed before.
"""

cimport cython
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from cpython.sequence cimport PySequence_Fast, PySequence_Fast_GET_ITEM, PySequence_Fast_GET_SIZE
from libc.stdint cimport INT32_MAX, INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from crc32c import crc32c

from ..errors import InvalidRecordError, KafkaError
from .cleaning import Cleaned, delete_horizon, empty_batch
from .columns import BinaryColumn, DecodedColumns, HeaderColumn
from .compression import compress, decompress
from .hashing import check_hash_key
from .header import BatchHeader, Compression, TimestampType
from .offset_map import LOAD_FACTOR, slots_and_capacity
from .opening import MAX_DECOMPRESSED_BYTES, BatchFacts, open_batch
from .settings import check_settings, stamped

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    str PyUnicode_DecodeUTF8(const char *data, Py_ssize_t size, const char *errors)
    bint PyObject_GC_IsTracked(object thing)
    void PyObject_GC_Track(object thing)
    void PyObject_GC_UnTrack(void *thing)
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1

# The layout of header.py; asserted equal to it by the contract tests.
cdef enum:
    HEADER_BYTES = 61
    LENGTH_END = 12
    CRC_AT = 17
    COVERED_AT = 21
    COMPRESSION_MASK = 0x07
    LAST_COMPRESSION = 4  # zstd
    LOG_APPEND_TIME_BIT = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
    DELETE_HORIZON_BIT = 0x40
    MIN_RECORD_BYTES = 7  # settings.MIN_RECORD_BYTES
    MIN_HEADER_BYTES = 2
    RECORD_OVERHEAD = 36  # settings.MAX_RECORD_OVERHEAD_BYTES
    HEADER_OVERHEAD = 10  # settings.MAX_HEADER_OVERHEAD_BYTES

cdef tuple _NO_HEADERS = ()
cdef object _NONE_CODEC = Compression.NONE
cdef object _new_tuple = tuple.__new__  # a named tuple's own constructor takes as long as decoding a batch header

include "_record.pxi"
include "_memory.pxi"
include "_spans.pxi"
include "_writing.pxi"
include "_columns_writing.pxi"
include "_reading.pxi"
include "_columns_reading.pxi"
include "_hashing.pxi"
include "_appending.pxi"
include "_walking.pxi"
include "_inspecting.pxi"
include "_offset_map.pxi"
include "_cleaning.pxi"


cdef class CompiledCodec:
    """The compiled codec; see codec.RecordCodec."""

    cdef readonly str name
    cdef object _hash_key

    def __cinit__(self, hash_key):
        self.name = "compiled"
        self._hash_key = check_hash_key(hash_key)

    def builder(
        self,
        *,
        max_bytes,
        compression=Compression.NONE,
        level=None,
        timestamp_type=TimestampType.CREATE_TIME,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        is_transactional=False,
        is_control=False,
        delete_horizon_ms=None,
    ):
        return CompiledBatchBuilder(
            check_settings(
                max_bytes=max_bytes,
                compression=compression,
                level=level,
                timestamp_type=timestamp_type,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                is_transactional=is_transactional,
                is_control=is_control,
                delete_horizon_ms=delete_horizon_ms,
            )
        )

    def record_bytes_bound(self, key, value, headers=()):
        cdef Py_ssize_t size_bytes = RECORD_OVERHEAD, name_bytes
        if key is not None:
            size_bytes += len(key)
        if value is not None:
            size_bytes += len(value)
        for name, data in headers:
            PyUnicode_AsUTF8AndSize(name, &name_bytes)
            size_bytes += HEADER_OVERHEAD + name_bytes
            if data is not None:
                size_bytes += len(data)
        return size_bytes

    def decode(
        self,
        batch,
        *,
        topic="",
        int partition=-1,
        bint check_crc=True,
        max_decompressed_bytes=MAX_DECOMPRESSED_BYTES,
    ):
        cdef Py_buffer view
        header, payload = open_batch(
            batch, check_crc=check_crc, is_dense=False, max_decompressed_bytes=max_decompressed_bytes
        )
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            return _decode(header, <const uint8_t *>view.buf, view.len, topic, partition)
        finally:
            PyBuffer_Release(&view)

    def inspect(self, batch, *, bint is_dense=True, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES):
        cdef Py_buffer view
        PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
        try:
            facts = _inspect_plain(<const uint8_t *>view.buf, view.len, is_dense)
        finally:
            PyBuffer_Release(&view)
        if facts is not None:
            return facts
        header, payload = open_batch(
            batch, check_crc=True, is_dense=is_dense, max_decompressed_bytes=max_decompressed_bytes
        )
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            lowest, highest, first_null_key = _walked(header, <const uint8_t *>view.buf, view.len, is_dense)
        finally:
            PyBuffer_Release(&view)
        return BatchFacts(header, lowest, highest, first_null_key)

    def check(self, batch, *, bint is_dense=True, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES):
        return self.inspect(batch, is_dense=is_dense, max_decompressed_bytes=max_decompressed_bytes).header

    def columns(self, *, bint keys=True, bint values=True, bint headers=True, max_column_bytes=INT32_MAX):
        return CompiledColumnSink(keys, values, headers, max_column_bytes)

    def murmur2(self, data):
        if not isinstance(data, bytes):
            raise TypeError(f"what is hashed must be bytes, not {type(data).__name__}")
        return _murmur2(<const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    def hash_column(self, column, count):
        return _hash_column(column, count)

    def partition_rows(self, partitions, partition_count):
        return _partition_rows(partitions, partition_count)

    def offset_map(self, memory_bytes, *, load_factor=LOAD_FACTOR):
        return CompiledOffsetMap(memory_bytes, load_factor, self._hash_key)

    def clean_batch(
        self,
        batch,
        offset_map,
        *,
        now_ms,
        delete_retention_ms,
        bint is_horizon_due=False,
        bint check_crc=True,
        max_decompressed_bytes=MAX_DECOMPRESSED_BYTES,
    ):
        return _clean_batch(
            batch, offset_map, now_ms, delete_retention_ms, is_horizon_due, check_crc, max_decompressed_bytes
        )

    def empty_batch(self, header):
        return empty_batch(header)

    def walk(
        self, data, Py_ssize_t at, Py_ssize_t end, int64_t base_offset, int64_t upto_offset, int32_t leader_epoch,
        *, bint check_crc=True, bint is_dense=True,
    ):
        cdef Py_buffer buffer
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        try:
            if not 0 <= at <= end <= buffer.len:
                raise ValueError(f"bytes {at} to {end} of {buffer.len}")
            if upto_offset <= base_offset:
                return at, base_offset
            return _walk_sound(
                <const uint8_t *>buffer.buf, at, end, base_offset, upto_offset, leader_epoch, check_crc, is_dense
            )
        finally:
            PyBuffer_Release(&buffer)
