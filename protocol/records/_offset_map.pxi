"""Part of _batch.pyx: the map of keys to their last offsets. In Python: offset_map.py.

A batch is walked twice, both times without the GIL: the first walk checks it and counts its keys; the second
hashes and inserts them. The slots of a few dozen hashes are prefetched before the first one is read, because
a lookup is dominated by cache misses.
"""


cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define HEADRACE_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define HEADRACE_PREFETCH(address) ((void)(address))
    #endif
    #if defined(__linux__)
    #include <stdint.h>
    #include <sys/mman.h>
    /* A hint: use large pages where possible, so that a lookup has one TLB miss less. */
    static void headrace_large_pages(void *data, size_t size)
    {
    #if defined(MADV_HUGEPAGE)
        const uintptr_t page = 1u << 21;
        uintptr_t start = ((uintptr_t)data + page - 1) & ~(page - 1), end = ((uintptr_t)data + size) & ~(page - 1);
        if (start < end)
            (void)madvise((void *)start, end - start, MADV_HUGEPAGE);
    #endif
    }
    #else
    static void headrace_large_pages(void *data, size_t size) { (void)data; (void)size; }
    #endif
    """
    void HEADRACE_PREFETCH(const void *address) noexcept nogil
    void headrace_large_pages(void *data, size_t size) noexcept nogil


cdef enum:
    AHEAD = 32  # lookups in flight; a CPU core handles about ten cache misses at once


cdef struct KeyHash:
    uint64_t low
    uint64_t high


cdef struct Slot:
    KeyHash key
    uint64_t next_offset  # the offset + 1; 0: the slot is free


cdef struct OffsetTable:
    Slot *slots  # Invariant: at least one is free
    uint64_t slot_count
    int64_t capacity  # Invariant: below slot_count
    int64_t count
    int64_t latest_offset
    uint64_t key_low
    uint64_t key_high


cdef inline uint64_t _little64(const uint8_t *data) noexcept nogil:
    # Byte by byte: a compiler merges this into one load, and big-endian machines compute the same hash.
    return (
        <uint64_t>data[0]
        | <uint64_t>data[1] << 8
        | <uint64_t>data[2] << 16
        | <uint64_t>data[3] << 24
        | <uint64_t>data[4] << 32
        | <uint64_t>data[5] << 40
        | <uint64_t>data[6] << 48
        | <uint64_t>data[7] << 56
    )


cdef inline uint64_t _rotated(uint64_t word, int bits) noexcept nogil:
    return (word << bits) | (word >> (64 - bits))


cdef inline void _sip_round(uint64_t *v0, uint64_t *v1, uint64_t *v2, uint64_t *v3) noexcept nogil:
    v0[0] += v1[0]
    v1[0] = _rotated(v1[0], 13) ^ v0[0]
    v0[0] = _rotated(v0[0], 32)
    v2[0] += v3[0]
    v3[0] = _rotated(v3[0], 16) ^ v2[0]
    v0[0] += v3[0]
    v3[0] = _rotated(v3[0], 21) ^ v0[0]
    v2[0] += v1[0]
    v1[0] = _rotated(v1[0], 17) ^ v2[0]
    v2[0] = _rotated(v2[0], 32)


cdef inline KeyHash _siphash128(const OffsetTable *table, const uint8_t *data, Py_ssize_t length) noexcept nogil:
    """hashing.siphash128."""
    cdef uint64_t v0 = table.key_low ^ <uint64_t>0x736F6D6570736575
    cdef uint64_t v1 = table.key_high ^ <uint64_t>0x646F72616E646F6D ^ 0xEE
    cdef uint64_t v2 = table.key_low ^ <uint64_t>0x6C7967656E657261
    cdef uint64_t v3 = table.key_high ^ <uint64_t>0x7465646279746573
    cdef uint64_t word
    cdef Py_ssize_t at = 0, rest
    cdef KeyHash out
    while at + 8 <= length:
        word = _little64(data + at)
        v3 ^= word
        _sip_round(&v0, &v1, &v2, &v3)
        _sip_round(&v0, &v1, &v2, &v3)
        v0 ^= word
        at += 8
    word = <uint64_t>(length & 0xFF) << 56
    for rest in range(length - at):
        word |= <uint64_t>data[at + rest] << (8 * rest)
    v3 ^= word
    _sip_round(&v0, &v1, &v2, &v3)
    _sip_round(&v0, &v1, &v2, &v3)
    v0 ^= word
    v2 ^= 0xEE
    for rest in range(4):
        _sip_round(&v0, &v1, &v2, &v3)
    out.low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    for rest in range(4):
        _sip_round(&v0, &v1, &v2, &v3)
    out.high = v0 ^ v1 ^ v2 ^ v3
    return out


cdef inline Slot *_home(const OffsetTable *table, KeyHash key) noexcept nogil:
    # slot_count is below 2^32, so the product fits
    return table.slots + ((key.low >> 32) * table.slot_count >> 32)


cdef inline Slot *_find(const OffsetTable *table, KeyHash key) noexcept nogil:
    """The slot that has the hash, or the free slot where it belongs."""
    cdef Slot *slot = _home(table, key)
    cdef Slot *end = table.slots + table.slot_count
    while slot.next_offset and (slot.key.low != key.low or slot.key.high != key.high):
        slot += 1
        if slot == end:
            slot = table.slots
    return slot


cdef inline bint _put(OffsetTable *table, KeyHash key, int64_t offset) noexcept nogil:
    """Set the offset of a key; False, without a change, if the key is new and the map is full."""
    cdef Slot *slot = _find(table, key)
    if not slot.next_offset:
        if table.count == table.capacity:
            return False
        slot.key = key
        table.count += 1
    if slot.next_offset < <uint64_t>offset + 1:
        slot.next_offset = <uint64_t>offset + 1
    return True


cdef int _skip_headers(Cursor *cursor, int32_t count) noexcept nogil:
    """Skip the headers of a record and check them."""
    cdef Py_ssize_t start = 0, length = 0
    cdef int32_t index
    cdef int fault
    for index in range(count):
        fault = _skip_nullable(cursor, &start, &length)
        if fault:
            return fault
        if length < 0 or not _is_utf8(cursor.data + start, cursor.data + start + length):
            return BAD_HEADERS
        fault = _skip_nullable(cursor, &start, &length)
        if fault:
            return fault
    return FINE


cdef inline int _next_record(
    Cursor *cursor, Py_ssize_t size, const BatchFields *batch, int32_t index, Fields *out
) noexcept nogil:
    """Check one whole record and move the cursor behind it."""
    cdef int fault = _read_record(cursor, batch, index, out)
    if fault == FINE and out.header_count:
        fault = _skip_headers(cursor, out.header_count)
    if fault:
        return fault
    if cursor.at != cursor.end:
        return TRAILING_BYTES
    cursor.end = size
    return FINE


cdef int _count_keys(
    const BatchFields *batch, const uint8_t *data, Py_ssize_t size, int64_t start_offset, int64_t *keys, int32_t *at
) noexcept nogil:
    """Check all records and set `keys` to the number with a key and an offset >= start. A fault is of record `at`."""
    cdef Cursor cursor = Cursor(data, 0, size)
    cdef Fields fields
    cdef int fault
    fields.delta = -1
    keys[0], at[0] = 0, 0
    while at[0] < batch.record_count:
        fault = _next_record(&cursor, size, batch, at[0], &fields)
        if fault:
            return fault
        keys[0] += fields.key_bytes >= 0 and fields.offset >= start_offset
        at[0] += 1
    return FINE if cursor.at == size else TRAILING_BYTES


cdef int _put_keys(
    OffsetTable *table, const BatchFields *batch, const uint8_t *data, Py_ssize_t size, int64_t start_offset,
    int64_t *left_out,
) noexcept nogil:
    """Insert the keys of checked records; `left_out` is the offset of the first that did not fit, or -1.

    All fields are checked again, because another thread may have written to the batch.
    """
    cdef Cursor cursor = Cursor(data, 0, size)
    cdef KeyHash keys[AHEAD]
    cdef int64_t offsets[AHEAD]
    cdef Fields fields
    cdef int32_t index = 0
    cdef int fault, found, number
    fields.delta = -1
    left_out[0] = -1
    while index < batch.record_count:
        found = 0
        while index < batch.record_count and found < AHEAD:
            fault = _next_record(&cursor, size, batch, index, &fields)
            if fault:
                return fault
            index += 1
            if fields.key_bytes >= 0 and fields.offset >= start_offset:
                keys[found] = _siphash128(table, data + fields.key_at, fields.key_bytes)
                offsets[found] = fields.offset
                HEADRACE_PREFETCH(_home(table, keys[found]))
                found += 1
        for number in range(found):
            if not _put(table, keys[number], offsets[number]):
                left_out[0] = offsets[number]
                return FINE
    return FINE


@cython.final
cdef class CompiledOffsetMap:
    """The last offset of each key; see codec.OffsetMap."""

    cdef OffsetTable _table
    cdef bint _is_busy

    def __cinit__(self, memory_bytes, load_factor, bytes hash_key not None):
        cdef const uint8_t *secret
        slots, capacity = slots_and_capacity(memory_bytes, load_factor)
        secret = <const uint8_t *>PyBytes_AS_STRING(hash_key)
        self._table.key_low, self._table.key_high = _little64(secret), _little64(secret + 8)
        self._table.slot_count, self._table.capacity = slots, capacity
        self._table.count, self._table.latest_offset = 0, -1
        # the system clears each page at its first use
        self._table.slots = <Slot *>PyMem_RawCalloc(slots, sizeof(Slot))
        if self._table.slots == NULL:
            raise MemoryError()
        headrace_large_pages(self._table.slots, slots * sizeof(Slot))

    def __dealloc__(self):
        PyMem_RawFree(self._table.slots)

    def __len__(self):
        return self._table.count

    @property
    def capacity(self):
        return self._table.capacity

    @property
    def memory_bytes(self):
        return self._table.slot_count * sizeof(Slot)

    @property
    def latest_offset(self):
        return self._table.latest_offset

    cdef int _take(self) except -1:
        if self._is_busy:
            raise ValueError("the offset map is in use by another thread")
        self._is_busy = True
        return 0

    def clear(self):
        self._take()
        with nogil:
            if self._table.count:
                memset(self._table.slots, 0, self._table.slot_count * sizeof(Slot))
            self._table.count, self._table.latest_offset = 0, -1
        self._is_busy = False

    def advance(self, int64_t offset):
        self._table.latest_offset = max(self._table.latest_offset, offset)

    def get(self, bytes key not None):
        cdef KeyHash hashed = _siphash128(
            &self._table, <const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)
        )
        return <int64_t>(_find(&self._table, hashed).next_offset - 1)

    def hash_of(self, bytes key not None):
        cdef KeyHash hashed = _siphash128(
            &self._table, <const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)
        )
        return hashed.low.to_bytes(8, "little") + hashed.high.to_bytes(8, "little")

    def add_batch(
        self, batch, start_offset=0, *, bint check_crc=True, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES
    ):
        cdef int64_t start = _clamped(start_offset)
        cdef _Held held = _Held.__new__(_Held)
        cdef BatchFields fields
        cdef Stored stored
        if start < 0:
            raise ValueError(f"an offset map starts at offset {start_offset}")
        _open_stored(held, batch, check_crc, max_decompressed_bytes, &fields, &stored)
        return self._add(&fields, &stored, start)

    def add_run(
        self, data, Py_ssize_t at, start_offset=0, *,
        bint check_crc=True, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES,
    ):
        cdef int64_t start = _clamped(start_offset), size = 0, length
        cdef Py_ssize_t records = 0
        cdef _Held held = _Held.__new__(_Held), unpacked
        cdef const uint8_t *first = held.take(data, &size)
        cdef BatchFields fields
        cdef Stored stored
        if start < 0 or not 0 <= at <= size:
            raise ValueError(f"an offset map starts at offset {start_offset}, at byte {at} of {size}")
        while size - at >= HEADER_BYTES:
            length = LENGTH_END + <int64_t><int32_t>_big32(first + at + 8)
            if length > size - at or first[at + COVERED_AT + 1] & (TRANSACTIONAL_BIT | CONTROL_BIT):
                break
            unpacked = _Held.__new__(_Held)
            try:
                if not _open_at(
                    unpacked, first + at, length, check_crc, max_decompressed_bytes, &fields, &stored
                ):
                    break
                if fields.base_offset < 0 or fields.base_offset > INT64_MAX - fields.last_offset_delta:
                    break
                if not self._table.count and fields.record_count > self._table.capacity:
                    break
                if not self._add(&fields, &stored, start):
                    break
            except KafkaError:
                break
            at += length
            records += fields.record_count
        return at, records

    cdef bint _add(self, const BatchFields *batch, const Stored *stored, int64_t start_offset) except -1:
        cdef OffsetTable *table = &self._table
        cdef int64_t keys = 0, left_out = -1
        cdef int32_t index = 0
        cdef bint fits = True
        cdef int fault
        self._take()
        with nogil:
            fault = _count_keys(batch, stored.records, stored.size, start_offset, &keys, &index)
            if fault == FINE and keys and not batch.is_control:
                fits = not table.count or keys <= table.capacity - table.count
                if fits:
                    fault = _put_keys(table, batch, stored.records, stored.size, start_offset, &left_out)
        self._is_busy = False
        if fault:
            raise _fault(fault, index)
        if not fits:
            return False
        if left_out >= 0:
            table.latest_offset = max(table.latest_offset, left_out - 1)
            return False
        if batch.base_offset + batch.last_offset_delta >= start_offset:
            table.latest_offset = max(table.latest_offset, batch.base_offset + batch.last_offset_delta)
        return True
