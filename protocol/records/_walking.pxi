"""Part of _batch.pyx: skipping valid stored batches. In Python: walking.py."""


cdef inline uint16_t _big16(const uint8_t *data) noexcept nogil:
    return (<uint16_t>data[0] << 8) | data[1]


cdef inline uint32_t _big32(const uint8_t *data) noexcept nogil:
    return (<uint32_t>data[0] << 24) | (<uint32_t>data[1] << 16) | (<uint32_t>data[2] << 8) | data[3]


cdef inline uint64_t _big64(const uint8_t *data) noexcept nogil:
    return (<uint64_t>_big32(data) << 32) | _big32(data + 4)


cdef tuple _walk_sound(
    const uint8_t *data, Py_ssize_t at, Py_ssize_t end,
    int64_t base_offset, int64_t upto_offset, int32_t leader_epoch, bint check_crc, bint is_dense,
):
    """Invariant: at <= end <= bytes of `data`; a header is read only where all of it lies before `end`."""
    cdef const uint8_t *header
    cdef int64_t last_delta, size, found
    while end - at >= HEADER_BYTES:
        header = data + at
        found = <int64_t>_big64(header)
        last_delta = <int32_t>_big32(header + 23)
        size = LENGTH_END + <int64_t><int32_t>_big32(header + 8)
        if (
            found < base_offset
            or (is_dense and found != base_offset)
            or found >= upto_offset
            or <int32_t>_big32(header + 12) != leader_epoch
            or header[16] != 2
            or last_delta < 0
            or size < HEADER_BYTES
            or size > end - at
            # Compared without a sum, which could overflow.
            or last_delta >= upto_offset - found
        ):
            break
        if check_crc and _crc_of(header + COVERED_AT, size - COVERED_AT) != _big32(header + CRC_AT):
            break
        at += size
        base_offset = found + last_delta + 1
    return at, base_offset
