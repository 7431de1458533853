"""Part of _batch.pyx: walking the records of an opened batch."""


cdef struct Cursor:
    const uint8_t *data
    Py_ssize_t at
    Py_ssize_t end  # Invariant: at <= end <= bytes of the payload


cdef struct Fields:
    int64_t timestamp
    int64_t offset
    int32_t delta
    Py_ssize_t key_at
    Py_ssize_t key_bytes  # -1 for null
    Py_ssize_t value_at
    Py_ssize_t value_bytes  # -1 for null
    int32_t header_count
    Py_ssize_t headers_at


cdef struct BatchFields:
    int64_t base_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int32_t last_offset_delta
    int32_t record_count
    bint has_append_time
    bint is_control
    bint is_dense


# Why a walk stopped; _fault has the error text of each.
cdef enum Fault:
    FINE = 0
    BAD_VARINT
    BAD_LENGTH
    BAD_DELTA
    BAD_TIMESTAMP
    BAD_HEADERS
    TRAILING_BYTES


cdef object _fault(int fault, int32_t index):
    what = (
        "fine",
        "a varint is cut short or too long",
        "a length passes the end",
        "an offset delta does not follow the one before, or passes the last",
        "a timestamp does not fit in 64 bits",
        "a header count or key is impossible",
        "bytes are left over",
    )[fault]
    return InvalidRecordError(f"record {index} of the batch: {what}")


cdef inline int _read_varint(Cursor *cursor, int32_t *value) noexcept nogil:
    """Read a zigzag varint of at most 32 bits."""
    cdef Py_ssize_t at = cursor.at
    cdef uint32_t raw = 0, byte
    cdef int shift = 0
    while at < cursor.end:
        byte = cursor.data[at]
        at += 1
        if shift == 28 and byte > 0x0F:
            return BAD_VARINT
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
            cursor.at = at
            return FINE
        shift += 7
    return BAD_VARINT


cdef inline int _read_varlong(Cursor *cursor, int64_t *value) noexcept nogil:
    """Read a zigzag varint of at most 64 bits."""
    cdef Py_ssize_t at = cursor.at
    cdef uint64_t raw = 0, byte
    cdef int shift = 0
    while at < cursor.end:
        byte = cursor.data[at]
        at += 1
        if shift == 63 and byte > 0x01:
            return BAD_VARINT
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
            cursor.at = at
            return FINE
        shift += 7
    return BAD_VARINT


cdef inline int _skip_nullable(Cursor *cursor, Py_ssize_t *start, Py_ssize_t *length) noexcept nogil:
    """Find and skip the next nullable field; any negative length is null, as in Kafka."""
    cdef int32_t declared = 0
    cdef int fault = _read_varint(cursor, &declared)
    if fault:
        return fault
    start[0] = cursor.at
    if declared < 0:
        length[0] = -1
        return FINE
    if declared > cursor.end - cursor.at:
        return BAD_LENGTH
    length[0] = declared
    cursor.at += declared
    return FINE


cdef inline int _read_record(Cursor *cursor, const BatchFields *batch, int32_t index, Fields *out) noexcept nogil:
    """Read one record up to its headers. On success `cursor` is at the first header, and its end is that of the
    record; the caller restores the end of the payload."""
    cdef int32_t length = 0, delta = 0, header_count = 0
    cdef int64_t timestamp_delta = 0
    cdef int32_t last_delta = out.delta
    cdef int fault = _read_varint(cursor, &length)
    if fault:
        return fault
    if length < 0 or length > cursor.end - cursor.at:
        return BAD_LENGTH
    cursor.end = cursor.at + length
    if length < 1:
        return BAD_LENGTH
    cursor.at += 1  # record attributes: the format defines none
    fault = _read_varlong(cursor, &timestamp_delta)
    if fault:
        return fault
    if batch.has_append_time:
        out.timestamp = batch.max_timestamp
    else:
        if timestamp_delta > 0 and batch.base_timestamp > INT64_MAX - timestamp_delta:
            return BAD_TIMESTAMP
        if timestamp_delta < 0 and batch.base_timestamp < -INT64_MAX - 1 - timestamp_delta:
            return BAD_TIMESTAMP
        out.timestamp = batch.base_timestamp + timestamp_delta
    fault = _read_varint(cursor, &delta)
    if fault:
        return fault
    if delta <= last_delta or delta > batch.last_offset_delta or (batch.is_dense and delta != index):
        return BAD_DELTA
    if batch.base_offset > INT64_MAX - delta:
        return BAD_DELTA
    out.delta = delta
    out.offset = batch.base_offset + delta
    fault = _skip_nullable(cursor, &out.key_at, &out.key_bytes)
    if fault:
        return fault
    fault = _skip_nullable(cursor, &out.value_at, &out.value_bytes)
    if fault:
        return fault
    fault = _read_varint(cursor, &header_count)
    if fault:
        return fault
    if header_count < 0 or header_count > (cursor.end - cursor.at) // MIN_HEADER_BYTES:
        return BAD_HEADERS
    out.header_count = header_count
    out.headers_at = cursor.at
    return FINE


cdef inline str _header_key(const uint8_t *data, Py_ssize_t length):
    try:
        return PyUnicode_DecodeUTF8(<const char *>data, length, NULL)
    except UnicodeDecodeError as error:
        raise InvalidRecordError("a header key is not UTF-8") from error


cdef inline bint _is_ascii(const uint8_t *data, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t index
    cdef uint8_t seen = 0
    for index in range(length):
        seen |= data[index]
    return seen < 0x80


cdef int _check_headers(Cursor *cursor, int32_t count) except -1:
    """Skip the headers of a record; returns a fault, or raises for a key that is not UTF-8."""
    cdef Py_ssize_t start = 0, length = 0
    cdef int32_t index
    cdef int fault
    for index in range(count):
        fault = _skip_nullable(cursor, &start, &length)
        if fault:
            return fault
        if length < 0:
            return BAD_HEADERS
        if not _is_ascii(cursor.data + start, length):
            _header_key(cursor.data + start, length)
        fault = _skip_nullable(cursor, &start, &length)
        if fault:
            return fault
    return FINE


cdef inline object _nullable(const uint8_t *data, Py_ssize_t start, Py_ssize_t length):
    if length < 0:
        return None
    return PyBytes_FromStringAndSize(<const char *>data + start, length)


cdef tuple _headers(Cursor *cursor, int32_t count, int32_t record):
    cdef Py_ssize_t start = 0, length = 0
    cdef int32_t index
    cdef int fault
    cdef list headers = []
    for index in range(count):
        fault = _skip_nullable(cursor, &start, &length)
        if fault or length < 0:
            raise _fault(fault or BAD_HEADERS, record)
        key = _header_key(cursor.data + start, length)
        fault = _skip_nullable(cursor, &start, &length)
        if fault:
            raise _fault(fault, record)
        headers.append((key, _nullable(cursor.data, start, length)))
    return tuple(headers)


cdef BatchFields _batch_fields(header, bint is_dense) except *:
    cdef BatchFields fields
    fields.base_offset = header.base_offset
    fields.base_timestamp = header.base_timestamp
    fields.max_timestamp = header.max_timestamp
    fields.last_offset_delta = header.last_offset_delta
    fields.record_count = header.record_count
    fields.has_append_time = header.attributes & LOG_APPEND_TIME_BIT
    fields.is_control = header.attributes & CONTROL_BIT
    fields.is_dense = is_dense
    return fields


cdef list _decode(header, const uint8_t *data, Py_ssize_t size, topic, int partition):
    cdef BatchFields batch = _batch_fields(header, False)
    cdef Cursor cursor = Cursor(data, 0, size)
    cdef Fields fields
    cdef int leader_epoch = header.leader_epoch
    cdef int fault
    cdef int32_t index
    cdef Record record
    cdef list records = []
    fields.delta = -1
    for index in range(batch.record_count):
        fault = _read_record(&cursor, &batch, index, &fields)
        if fault:
            raise _fault(fault, index)
        record = Record.__new__(Record)
        PyObject_GC_UnTrack(<void *>record)  # tracked again by _track
        record._topic = topic
        record.partition = partition
        record.offset = fields.offset
        record.timestamp = fields.timestamp
        record.timestamp_type = batch.has_append_time
        record.leader_epoch = leader_epoch
        record._key = _nullable(data, fields.key_at, fields.key_bytes)
        record._value = _nullable(data, fields.value_at, fields.value_bytes)
        record._headers = _headers(&cursor, fields.header_count, index) if fields.header_count else _NO_HEADERS
        if cursor.at != cursor.end:
            raise _fault(TRAILING_BYTES, index)
        cursor.end = size
        records.append(record)
    if cursor.at != size:
        raise _fault(TRAILING_BYTES, batch.record_count)
    return records


cdef tuple _walked(header, const uint8_t *data, Py_ssize_t size, bint is_dense):
    """The lowest and highest timestamp and the index of the first record without a key; -1 without such records."""
    cdef BatchFields batch = _batch_fields(header, is_dense)
    cdef int64_t lowest = -1, highest = -1
    cdef int32_t first_null_key = -1
    _walk_records(&batch, data, size, &lowest, &highest, &first_null_key)
    return lowest, highest, first_null_key


cdef int _walk_records(
    const BatchFields *batch, const uint8_t *data, Py_ssize_t size, int64_t *lowest, int64_t *highest,
    int32_t *first_null_key,
) except -1:
    """Walk all records; find the lowest and highest timestamp and the index of the first record without a key.
    Arguments stay unchanged if there is none."""
    cdef Cursor cursor = Cursor(data, 0, size)
    cdef Fields fields
    cdef int fault
    cdef int32_t index
    fields.delta = -1
    for index in range(batch.record_count):
        fault = _read_record(&cursor, batch, index, &fields)
        if fault == FINE and fields.header_count:
            fault = _check_headers(&cursor, fields.header_count)
        if fault == FINE and cursor.at != cursor.end:
            fault = TRAILING_BYTES
        if fault:
            raise _fault(fault, index)
        cursor.end = size
        if fields.key_bytes < 0 and first_null_key[0] < 0:
            first_null_key[0] = index
        if index == 0 or fields.timestamp < lowest[0]:
            lowest[0] = fields.timestamp
        if index == 0 or fields.timestamp > highest[0]:
            highest[0] = fields.timestamp
    if cursor.at != size:
        raise _fault(TRAILING_BYTES, batch.record_count)
    return 0
