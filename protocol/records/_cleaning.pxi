"""Part of _batch.pyx: rewrite a stored batch without the records that compaction removes. In Python: cleaning.py.

The walk runs without the GIL. Kept records are copied in runs, and only if at least one is removed.
"""


# The state of a record before its lookup.
cdef enum Verdict:
    STAYS
    GOES
    ASK


cdef struct Candidate:
    Py_ssize_t start
    Py_ssize_t end
    int64_t offset
    int64_t timestamp
    bint is_tombstone
    Verdict verdict
    KeyHash key


cdef struct Cleaning:
    bint keeps_tombstones
    const uint8_t *payload
    Py_ssize_t size
    uint8_t *out  # Invariant: capacity for `size` bytes
    Py_ssize_t out_size
    Py_ssize_t run_start  # position of the kept records that are not copied yet
    int32_t index  # index of the next record
    int32_t kept
    int64_t max_timestamp
    int64_t offset_of_max_timestamp
    bint has_tombstones


cdef inline void _copy_run(Cleaning *c, Py_ssize_t end) noexcept nogil:
    """Runs follow each other and do not overlap, so together they are never longer than the payload."""
    memcpy(c.out + c.out_size, c.payload + c.run_start, end - c.run_start)
    c.out_size += end - c.run_start


cdef inline bint _is_latest(const OffsetTable *table, const Cleaning *c, const Candidate *one) noexcept nogil:
    if one.verdict != ASK:
        return one.verdict == STAYS
    # The next_offset of an unknown key is 0.
    return <uint64_t>one.offset + 1 >= _find(table, one.key).next_offset and (
        c.keeps_tombstones or not one.is_tombstone
    )


cdef int _clean(const OffsetTable *table, const BatchFields *batch, Cleaning *c) noexcept nogil:
    """Walk the batch; returns FINE, or the fault of record `index`."""
    cdef Cursor cursor = Cursor(c.payload, 0, c.size)
    cdef Candidate found[AHEAD]
    cdef Candidate *one
    cdef Fields fields
    cdef int fault, count, number
    fields.delta = -1
    while c.index < batch.record_count:
        count = 0
        while c.index < batch.record_count and count < AHEAD:
            one = &found[count]
            one.start = cursor.at
            fault = _next_record(&cursor, c.size, batch, c.index, &fields)
            if fault:
                return fault
            one.end, one.offset, one.timestamp = cursor.at, fields.offset, fields.timestamp
            one.is_tombstone = fields.value_bytes < 0 and not batch.is_control
            if batch.is_control or fields.offset > table.latest_offset:
                one.verdict = STAYS
            elif fields.key_bytes < 0:
                one.verdict = GOES
            else:
                one.verdict = ASK
                one.key = _siphash128(table, c.payload + fields.key_at, fields.key_bytes)
                HEADRACE_PREFETCH(_home(table, one.key))
            c.index += 1
            count += 1
        for number in range(count):
            one = &found[number]
            if not _is_latest(table, c, one):
                _copy_run(c, one.start)
                c.run_start = one.end
                continue
            if not c.kept or one.timestamp > c.max_timestamp:
                c.max_timestamp, c.offset_of_max_timestamp = one.timestamp, one.offset
            c.has_tombstones |= one.is_tombstone
            c.kept += 1
    return FINE if cursor.at == c.size else TRAILING_BYTES


cdef int _move(
    const BatchFields *batch, const uint8_t *records, Py_ssize_t size, int32_t count, int64_t horizon_ms,
    uint8_t *out, Py_ssize_t *out_size,
) noexcept nogil:
    """Rewrite `count` checked records for a base timestamp of `horizon_ms`; returns FINE, or a fault.

    `out` has capacity for `size` bytes and 13 more for each record: the timestamp delta grows from at least one
    byte to at most ten, and the length by at most four bytes. All fields are checked again, because another
    thread may have written to the batch.
    """
    cdef Cursor cursor = Cursor(records, 0, size)
    cdef uint8_t *at = out
    cdef int32_t index, length = 0
    cdef int64_t timestamp, delta = 0
    cdef uint8_t attributes
    cdef Py_ssize_t end, body
    for index in range(count):
        if _read_varint(&cursor, &length):
            return BAD_VARINT
        if length < 1 or length > size - cursor.at:
            return BAD_LENGTH
        end = cursor.at + length
        attributes = records[cursor.at]
        cursor.at += 1
        cursor.end = end
        if _read_varlong(&cursor, &delta):
            return BAD_VARINT
        if batch.has_append_time:
            timestamp = batch.max_timestamp
        elif delta > 0 and batch.base_timestamp > INT64_MAX - delta:
            return BAD_TIMESTAMP
        elif delta < 0 and batch.base_timestamp < -INT64_MAX - 1 - delta:
            return BAD_TIMESTAMP
        else:
            timestamp = batch.base_timestamp + delta
        if timestamp < -INT64_MAX - 1 + horizon_ms:
            return BAD_TIMESTAMP
        delta = timestamp - horizon_ms
        body = 1 + _varint_size(delta) + end - cursor.at
        if body > INT32_MAX:
            return BAD_LENGTH
        at = _put_varint(at, body)
        at[0] = attributes
        at = _put_varint(at + 1, delta)
        memcpy(at, records + cursor.at, end - cursor.at)
        at += end - cursor.at
        cursor.at, cursor.end = end, size
    out_size[0] = at - out
    return FINE


cdef object _clean_batch(
    batch, CompiledOffsetMap offsets, now_ms, delete_retention_ms, bint is_horizon_due, bint check_crc, max_bytes
):
    """See codec.RecordCodec.clean_batch."""
    cdef int64_t horizon_ms = delete_horizon(now_ms, delete_retention_ms)
    cdef int64_t now = _clamped(now_ms)
    cdef _Held held = _Held.__new__(_Held)
    cdef BatchFields fields
    cdef Stored stored
    cdef Cleaning c
    cdef _Block block
    cdef bint had_horizon, sets_horizon
    cdef int fault
    if offsets is None:
        raise TypeError("a batch is cleaned by an offset map")
    _open_stored(held, batch, check_crc, max_bytes, &fields, &stored)
    had_horizon = stored.header[COVERED_AT + 1] & DELETE_HORIZON_BIT
    memset(&c, 0, sizeof(Cleaning))
    c.keeps_tombstones = not had_horizon or now < fields.base_timestamp
    c.payload, c.size = stored.records, stored.size
    block = _new_block(HEADER_BYTES + stored.size)
    c.out = block._data + HEADER_BYTES
    offsets._take()
    with nogil:
        fault = _clean(&offsets._table, &fields, &c)
    offsets._is_busy = False
    if fault:
        raise _fault(fault, c.index)
    if not c.kept:
        return _new_tuple(Cleaned, (None, 0, c.index, -1, -1, False))
    sets_horizon = not had_horizon and (c.has_tombstones or is_horizon_due)
    data = batch
    if sets_horizon:
        data = _rebuilt(&stored, &c, _moved(&fields, &c, block, horizon_ms), horizon_ms)
    elif c.kept < c.index:
        _copy_run(&c, c.size)
        block._size = HEADER_BYTES + c.out_size
        data = _rebuilt(&stored, &c, block, -1)
    return _new_tuple(Cleaned, (
        data, c.kept, c.index - c.kept, c.max_timestamp, c.offset_of_max_timestamp, c.has_tombstones
    ))


cdef _Block _moved(const BatchFields *fields, Cleaning *c, _Block block, int64_t horizon_ms):
    """Space for a header, then the kept records with timestamps relative to the horizon."""
    cdef const uint8_t *records = c.payload
    cdef Py_ssize_t size = c.size, out_size = 0
    cdef _Block moved
    cdef int fault
    if c.kept < c.index:
        _copy_run(c, c.size)
        records, size = c.out, c.out_size
    moved = _new_block(HEADER_BYTES + size + 13 * <Py_ssize_t>c.kept)
    with nogil:
        fault = _move(fields, records, size, c.kept, horizon_ms, moved._data + HEADER_BYTES, &out_size)
    if fault:
        raise _fault(fault, -1)
    moved._size = HEADER_BYTES + out_size
    return moved


cdef object _rebuilt(const Stored *stored, const Cleaning *c, _Block block, int64_t horizon_ms):
    """The batch of the records in `block`, which starts with space for the header; `horizon_ms` is -1 for none."""
    cdef Py_ssize_t size = block._size - HEADER_BYTES
    cdef int compression = stored.header[COVERED_AT + 1] & COMPRESSION_MASK
    cdef _Block whole = block
    if compression:
        packed = compress(Compression(compression), memoryview(block)[HEADER_BYTES:])
        size = len(packed)
    if size > INT32_MAX - HEADER_BYTES:
        raise InvalidRecordError(f"{size} bytes of records do not fit in a batch")
    if compression:
        whole = _new_block(HEADER_BYTES + size)
        memcpy(whole._data + HEADER_BYTES, PyBytes_AS_STRING(packed), size)
    memcpy(whole._data, stored.header, HEADER_BYTES)
    _put_big_endian(whole._data + 8, HEADER_BYTES - LENGTH_END + size, 4)
    if horizon_ms >= 0:
        whole._data[COVERED_AT + 1] |= DELETE_HORIZON_BIT
        _put_big_endian(whole._data + 27, horizon_ms, 8)
    _put_big_endian(whole._data + 35, c.max_timestamp, 8)
    _put_big_endian(whole._data + 57, c.kept, 4)
    _put_big_endian(whole._data + CRC_AT, <int64_t>_crc_of(whole._data + COVERED_AT, whole._size - COVERED_AT), 4)
    return memoryview(whole)
