"""Part of _batch.pyx: what is in a batch that is not compressed, found in one call; what opening.open_batch and
the walk over the records give for it."""


cdef inline object _crc_of(const uint8_t *data, Py_ssize_t size):
    """The CRC-32C; `data` stays where it is meanwhile."""
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
    """The BatchFacts of the `size` bytes at `data`; None if they are to be looked at closely: compressed,
    without records, or wrong in what open_batch says in its own order and words."""
    cdef BatchFields batch
    cdef int64_t lowest = -1, highest = -1
    if size < HEADER_BYTES or data[16] != 2 or <int64_t><int32_t>_big32(data + 8) != size - LENGTH_END:
        return None
    if data[COVERED_AT + 1] & COMPRESSION_MASK:
        return None
    batch.last_offset_delta = <int32_t>_big32(data + 23)
    batch.record_count = <int32_t>_big32(data + 57)
    if (
        batch.record_count <= 0
        or batch.last_offset_delta < 0
        or (is_dense and batch.last_offset_delta != batch.record_count - 1)
        or <int64_t>batch.record_count * MIN_RECORD_BYTES > size - HEADER_BYTES
    ):
        return None
    if _crc_of(data + COVERED_AT, size - COVERED_AT) != _big32(data + CRC_AT):
        return None
    batch.base_offset = <int64_t>_big64(data)
    batch.base_timestamp = <int64_t>_big64(data + 27)
    batch.max_timestamp = <int64_t>_big64(data + 35)
    batch.has_append_time = data[COVERED_AT + 1] & LOG_APPEND_TIME_BIT
    batch.is_dense = is_dense
    _walk_timestamps(&batch, data + HEADER_BYTES, size - HEADER_BYTES, &lowest, &highest)
    return _new_tuple(BatchFacts, (_header_of(data), lowest, highest))
