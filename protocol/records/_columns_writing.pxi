"""Part of _batch.pyx: appending rows of columns, or a list of values, to a batch under construction."""


cdef struct HeaderSpans:
    Spans rows
    Spans keys
    Spans values


# Key, value and headers of one row. Invariant: all positions were checked to be inside their buffers.
cdef struct Row:
    const uint8_t *key
    const uint8_t *value
    Py_ssize_t key_bytes  # -1 for null
    Py_ssize_t value_bytes  # -1 for null
    int64_t first_pair
    int64_t pair_count
    Py_ssize_t headers_size  # bytes of the encoded headers without their count


cdef inline uint8_t *_put_bytes(uint8_t *out, const uint8_t *data, Py_ssize_t length) noexcept nogil:
    out = _put_varint(out, length)
    if length > 0:
        memcpy(out, data, length)
        out += length
    return out


cdef uint8_t *_put_pairs(uint8_t *out, const uint8_t *end, const HeaderSpans *headers, const Row *row) except NULL:
    """Write the measured headers. ValueError if another thread has made them longer since."""
    cdef const uint8_t *data = NULL
    cdef Py_ssize_t length = 0
    cdef int64_t index
    cdef int part
    for index in range(row.first_pair, row.first_pair + row.pair_count):
        for part in range(2):
            _value_at(&headers.values if part else &headers.keys, index, &data, &length)
            if _nullable_size(length) > end - out:
                raise ValueError("the headers changed while they were read")
            out = _put_bytes(out, data, length)
    return out


cdef int _measure_pairs(const HeaderSpans *headers, int64_t number, Row *row) except -1:
    """Find and measure the headers of a row. Checks them completely, so that writing cannot fail."""
    cdef const uint8_t *data = NULL
    cdef Py_ssize_t length = 0
    cdef int64_t index, end = 0
    cdef int found = _span(&headers.rows, number, &row.first_pair, &end)
    if found < 0:
        raise ValueError(f"header offsets {row.first_pair} and {end} of row {number}")
    row.headers_size = 0
    row.pair_count = end - row.first_pair if found else 0
    for index in range(row.first_pair, row.first_pair + row.pair_count):
        _value_at(&headers.keys, index, &data, &length)
        if length < 0:
            raise ValueError("a header key is null")
        if not _is_utf8(data, data + length):
            raise ValueError("a header key is not UTF-8")
        row.headers_size += _nullable_size(length)
        _value_at(&headers.values, index, &data, &length)
        row.headers_size += _nullable_size(length)
    return 0


cdef inline int _put_row(
    CompiledBatchBuilder builder, int64_t timestamp, const Row *row, const HeaderSpans *headers
) except -1:
    """Returns 1 if the row was appended, 0 if the batch is full. Errors: those of `append`, with nothing appended."""
    cdef Py_ssize_t body_bytes, size_bytes
    cdef int64_t delta = 0
    cdef uint8_t *out
    if timestamp < -1:
        raise ValueError(f"a timestamp is -1 or at least 0, not {timestamp}")
    if builder._has_base_timestamp:
        if builder._base_timestamp < 0 and timestamp > INT64_MAX + builder._base_timestamp:
            raise ValueError(f"timestamp {timestamp} is too far from the batch's {builder._base_timestamp}")
        delta = timestamp - builder._base_timestamp
    body_bytes = (
        1
        + _varint_size(delta)
        + _varint_size(builder.count)
        + _nullable_size(row.key_bytes)
        + _nullable_size(row.value_bytes)
        + _varint_size(row.pair_count)
        + row.headers_size
    )
    size_bytes = builder._size + _varint_size(body_bytes) + body_bytes
    if body_bytes <= INT32_MAX and builder.count and size_bytes > builder._max_bytes:
        return 0
    if size_bytes > INT32_MAX:
        raise ValueError(f"a record of {body_bytes} bytes does not fit in a batch")
    builder._reserve(size_bytes)
    out = _put_varint(builder._data + builder._size, body_bytes)
    out[0] = 0  # record attributes: the format defines none
    out = _put_varint(out + 1, delta)
    out = _put_varint(out, builder.count)
    out = _put_bytes(out, row.key, row.key_bytes)
    out = _put_bytes(out, row.value, row.value_bytes)
    out = _put_varint(out, row.pair_count)
    if row.pair_count:
        out = _put_pairs(out, builder._data + size_bytes, headers, row)
    assert out == builder._data + size_bytes, "the size computed is the size written"
    builder._size = size_bytes
    if not builder._has_base_timestamp:
        builder._has_base_timestamp = True
        builder._base_timestamp = timestamp
    if timestamp > builder._max_timestamp:
        builder._max_timestamp = timestamp
    builder.count += 1
    return 1


cdef int64_t _timestamp_for_all(timestamp_ms) except? -1:
    cdef int overflow = 0
    cdef int64_t timestamp = PyLong_AsLongLongAndOverflow(timestamp_ms, &overflow)
    if overflow or timestamp < -1:
        raise ValueError(f"a timestamp is -1 or at least 0 and fits in 64 bits, not {timestamp_ms}")
    return timestamp


cdef object _append_columns(CompiledBatchBuilder builder, columns, timestamp_ms, rows, start, end, stop_bytes):
    # Order: steps that may run Python code come first; the loop below runs none.
    cdef _Held held = _Held.__new__(_Held)
    cdef int64_t count = _clamped(columns.count), row_count = count, number, size = 0
    cdef int64_t position = _clamped(start), last = _clamped(end), stop = _clamped(stop_bytes)
    cdef int64_t timestamp = 0
    cdef Spans keys, values
    cdef HeaderSpans headers
    cdef const uint8_t *timestamps = NULL
    cdef const uint8_t *numbers = NULL
    cdef bint has_keys = columns.keys is not None, has_values = columns.values is not None
    cdef bint has_headers = columns.headers is not None, has_rows = rows is not None
    cdef bint has_timestamps = columns.timestamps is not None
    cdef Row row = Row(NULL, NULL, -1, -1, 0, 0, 0)
    if not 0 <= count <= INT32_MAX:
        raise ValueError(f"{columns.count} rows")
    if has_keys:
        _open_values(held, columns.keys, count, &keys)
    if has_values:
        _open_values(held, columns.values, count, &values)
    if has_headers:
        _open_spans(held, columns.headers, count, &headers.rows)
        _open_values(held, columns.headers.keys, 0, &headers.keys)
        _open_values(held, columns.headers.values, 0, &headers.values)
        headers.rows.end = min(headers.keys.available, headers.values.available)
    if has_timestamps:
        timestamps = held.take(columns.timestamps, &size)
        if size // 8 < count:
            raise ValueError(f"{size // 8} timestamps for {count} rows")
    else:
        timestamp = _timestamp_for_all(timestamp_ms)
    if has_rows:
        numbers = held.take(rows, &size)
        row_count = size // 4
    if not 0 <= position <= last <= row_count:
        raise ValueError(f"rows {start} to {end} of {row_count}")
    if builder._is_built:
        raise ValueError("the batch is already built")
    while position < last:
        number = _int32_at(numbers, position) if has_rows else position
        if not 0 <= number < count:
            raise ValueError(f"row {number} of {count}")
        if has_timestamps:
            timestamp = _int64_at(timestamps, number)
        if has_keys:
            _value_at(&keys, number, &row.key, &row.key_bytes)
        if has_values:
            _value_at(&values, number, &row.value, &row.value_bytes)
        if has_headers:
            _measure_pairs(&headers, number, &row)
        if not _put_row(builder, timestamp, &row, &headers):
            return position
        position += 1
        if builder._size > stop:
            return position
    return last


cdef object _append_values(CompiledBatchBuilder builder, timestamp_ms, values, start, stop_bytes):
    cdef int64_t timestamp = _timestamp_for_all(timestamp_ms)
    cdef int64_t position = _clamped(start), stop = _clamped(stop_bytes)
    cdef object items = PySequence_Fast(values, "the values must be a sequence")
    cdef int64_t count = PySequence_Fast_GET_SIZE(items)
    cdef Row row = Row(NULL, NULL, -1, -1, 0, 0, 0)
    if not 0 <= position <= count:
        raise ValueError(f"values from {start} of {count}")
    if builder._is_built:
        raise ValueError("the batch is already built")
    while position < count:  # runs no Python code, so neither the list nor the builder can change
        value = <object>PySequence_Fast_GET_ITEM(items, position)
        row.value_bytes = _nullable_bytes("a value", value)
        row.value = <const uint8_t *>PyBytes_AS_STRING(value) if row.value_bytes > 0 else NULL
        if not _put_row(builder, timestamp, &row, NULL):
            return position
        position += 1
        if builder._size > stop:
            return position
    return count
