"""Part of _batch.pyx: hashes of keys, and rows sorted by partition. In Python: hashing.py."""


cdef enum:
    MAX_PARTITIONS = 16777216  # hashing.MAX_PARTITIONS


cdef uint32_t _murmur2(const uint8_t *data, Py_ssize_t length) noexcept nogil:
    cdef uint32_t h = <uint32_t>0x9747B28C ^ <uint32_t>length, k, m = 0x5BD1E995
    cdef Py_ssize_t at = 0
    while at + 4 <= length:
        # Byte by byte: a compiler merges this into one load, and big-endian machines compute the same hash.
        k = (
            data[at]
            | <uint32_t>data[at + 1] << 8
            | <uint32_t>data[at + 2] << 16
            | <uint32_t>data[at + 3] << 24
        )
        k *= m
        k ^= k >> 24
        k *= m
        h *= m
        h ^= k
        at += 4
    if length - at >= 3:
        h ^= <uint32_t>data[at + 2] << 16
    if length - at >= 2:
        h ^= <uint32_t>data[at + 1] << 8
    if length - at >= 1:
        h ^= data[at]
        h *= m
    h ^= h >> 13
    h *= m
    h ^= h >> 15
    return h


cdef int _hash_values(const Spans *values, int64_t count, uint32_t *out) noexcept nogil:
    """Returns 0, or -1 for invalid offsets."""
    cdef int64_t row, low = 0, high = 0
    cdef int found
    for row in range(count):
        found = _span(values, row, &low, &high)
        if found < 0:
            return -1
        out[row] = _murmur2(values.data + low, high - low) if found else 0
    return 0


cdef object _hash_column(column, count):
    cdef _Held held = _Held.__new__(_Held)
    cdef Spans values
    cdef int64_t row_count = _clamped(count)
    cdef _Block block
    cdef int fault
    if not 0 <= row_count <= INT32_MAX:
        raise ValueError(f"{count} rows")
    _open_values(held, column, row_count, &values)
    block = _new_block(4 * row_count)
    with nogil:
        fault = _hash_values(&values, row_count, <uint32_t *>block._data)
    if fault:
        raise ValueError("offsets of a column run backwards or pass its data")
    return block


cdef int _sort_rows(
    const uint8_t *partitions, int64_t count, int64_t partition_count, int64_t *starts, int32_t *rows
) noexcept nogil:
    """Sort rows by partition with a counting sort.

    `starts` has partition_count+3 entries, all 0; the first partition_count+2 are the result. Returns 0, or -1
    for a partition that does not exist.
    """
    cdef int64_t row, place
    for row in range(count):
        place = _int32_at(partitions, row)
        if place < -1 or place >= partition_count:
            return -1
        starts[(partition_count if place < 0 else place) + 2] += 1
    for place in range(2, partition_count + 3):
        starts[place] += starts[place - 1]
    # Now starts[p + 1] is the start of p; placing the rows advances it to the end of p. Partitions are checked
    # again, because another thread may have written to them.
    for row in range(count):
        place = _int32_at(partitions, row)
        if place < 0:
            place = partition_count
        if place > partition_count or starts[place + 1] >= count:
            return -1
        rows[starts[place + 1]] = <int32_t>row
        starts[place + 1] += 1
    return 0


cdef tuple _partition_rows(partitions, partition_count):
    cdef _Held held = _Held.__new__(_Held)
    cdef int64_t size = 0, last = _clamped(partition_count), place
    cdef const uint8_t *numbers
    cdef _Block block, starts
    cdef int fault
    if not 0 <= last <= MAX_PARTITIONS:
        raise ValueError(f"{partition_count} partitions")
    numbers = held.take(partitions, &size)
    if size // 4 > INT32_MAX:
        raise ValueError(f"{size // 4} rows")
    block = _new_block(size // 4 * 4)
    starts = _new_block(8 * (last + 3))
    memset(starts._data, 0, starts._size)
    with nogil:
        fault = _sort_rows(numbers, size // 4, last, <int64_t *>starts._data, <int32_t *>block._data)
    if fault:
        raise ValueError(f"a partition is neither -1 nor below {partition_count}")
    return block, [(<int64_t *>starts._data)[place] for place in range(last + 2)]
