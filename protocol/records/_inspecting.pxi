"""Part of _batch.pyx: BatchFacts of an uncompressed batch in one call, equal to those of opening.open_batch and
the walk over the records."""


cdef inline object _crc_of(const uint8_t *data, Py_ssize_t size):
    """The CRC-32C of `size` bytes, which the caller keeps valid."""
    return crc32c(PyMemoryView_FromMemory(<char *>data, size, PyBUF_READ))


cdef object _header_of(const uint8_t *data):
    """The 61 bytes at `data` as a BatchHeader."""
    return _new_tuple(BatchHeader, (
        <int64_t>_big64(data),
        <int32_t>_big32(data + 8),
        <int32_t>_big32(data + 12),
        data[16],
        _big32(data + CRC_AT),
        <int16_t>_big16(data + COVERED_AT),
        <int32_t>_big32(data + 23),
        <int64_t>_big64(data + 27),
        <int64_t>_big64(data + 35),
        <int64_t>_big64(data + 43),
        <int16_t>_big16(data + 51),
        <int32_t>_big32(data + 53),
        <int32_t>_big32(data + 57),
    ))


cdef object _inspect_plain(const uint8_t *data, Py_ssize_t size, bint is_dense):
    """The BatchFacts of the `size` bytes at `data`; None if open_batch has to check them."""
    cdef BatchFields batch
    cdef int64_t lowest = -1, highest = -1
    cdef int32_t first_null_key = -1
    if _open_header(data, size, is_dense, True, &batch) != PLAIN:
        return None
    _walk_records(&batch, data + HEADER_BYTES, size - HEADER_BYTES, &lowest, &highest, &first_null_key)
    return _new_tuple(BatchFacts, (_header_of(data), lowest, highest, first_null_key))


cdef enum Opened:
    CLOSELY  # open_batch must check it: there are no records, or there is an error that open_batch reports
    PLAIN
    PACKED  # compressed: the record count cannot be checked yet


cdef int _open_header(
    const uint8_t *data, Py_ssize_t size, bint is_dense, bint check_crc, BatchFields *batch
) except -1:
    """Check what open_batch checks before decompression."""
    cdef int compression
    if size < HEADER_BYTES or data[16] != 2 or <int64_t><int32_t>_big32(data + 8) != size - LENGTH_END:
        return CLOSELY
    compression = data[COVERED_AT + 1] & COMPRESSION_MASK
    if compression > LAST_COMPRESSION:
        return CLOSELY
    batch.last_offset_delta = <int32_t>_big32(data + 23)
    batch.record_count = <int32_t>_big32(data + 57)
    if (
        batch.record_count <= 0
        or batch.last_offset_delta < 0
        or (is_dense and batch.last_offset_delta != batch.record_count - 1)
        or (not compression and <int64_t>batch.record_count * MIN_RECORD_BYTES > size - HEADER_BYTES)
    ):
        return CLOSELY
    if check_crc and _crc_of(data + COVERED_AT, size - COVERED_AT) != _big32(data + CRC_AT):
        return CLOSELY
    batch.base_offset = <int64_t>_big64(data)
    batch.base_timestamp = <int64_t>_big64(data + 27)
    batch.max_timestamp = <int64_t>_big64(data + 35)
    batch.has_append_time = data[COVERED_AT + 1] & LOG_APPEND_TIME_BIT
    batch.is_control = data[COVERED_AT + 1] & CONTROL_BIT
    batch.is_dense = is_dense
    return PACKED if compression else PLAIN


# A stored batch and its decompressed records; a _Held object keeps both buffers locked.
cdef struct Stored:
    const uint8_t *header
    const uint8_t *records
    int64_t size  # bytes of the records


cdef int _open_stored(
    _Held held, batch, bint check_crc, max_decompressed_bytes, BatchFields *fields, Stored *out
) except -1:
    """Open the stored batch that fills `batch`. Errors: those of open_batch and check_offsets."""
    cdef int64_t size = 0
    cdef const uint8_t *data = held.take(batch, &size)
    if not _open_at(held, data, size, check_crc, max_decompressed_bytes, fields, out):
        out.header = data
        header, payload = open_batch(
            batch, check_crc=check_crc, is_dense=False, max_decompressed_bytes=max_decompressed_bytes
        )
        fields[0] = _batch_fields(header, False)
        out.records = held.take(payload, &out.size)
    if fields.base_offset < 0 or fields.base_offset > INT64_MAX - fields.last_offset_delta:
        raise InvalidRecordError(f"a batch of the offsets {fields.base_offset} + {fields.last_offset_delta}")
    return 0


cdef bint _open_at(
    _Held held, const uint8_t *data, int64_t size, bint check_crc, max_decompressed_bytes,
    BatchFields *fields, Stored *out,
) except -1:
    """Open the stored batch of `size` bytes at `data`; False if open_batch has to check it."""
    cdef int opened = _open_header(data, size, False, check_crc, fields)
    if opened == CLOSELY:
        return False
    out.header, out.records, out.size = data, data + HEADER_BYTES, size - HEADER_BYTES
    if opened == PACKED:
        packed = PyMemoryView_FromMemory(<char *>data + HEADER_BYTES, size - HEADER_BYTES, PyBUF_READ)
        payload = decompress(data[COVERED_AT + 1] & COMPRESSION_MASK, packed, max_decompressed_bytes)
        out.records = held.take(payload, &out.size)
        if <int64_t>fields.record_count * MIN_RECORD_BYTES > out.size:
            raise InvalidRecordError(f"{fields.record_count} records do not fit in {out.size} bytes")
    return True
