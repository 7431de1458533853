"""Part of _batch.pyx: appending records to a batch under construction."""


cdef inline uint64_t _zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline int _varint_size(int64_t value) noexcept nogil:
    cdef uint64_t rest = _zigzag(value)
    cdef int size = 1
    if rest < 0x80:  # most values
        return 1
    while rest > 0x7F:
        rest >>= 7
        size += 1
    return size


cdef inline uint8_t *_put_varint(uint8_t *out, int64_t value) noexcept nogil:
    cdef uint64_t rest = _zigzag(value)
    while rest > 0x7F:
        out[0] = <uint8_t>(rest & 0x7F) | 0x80
        out += 1
        rest >>= 7
    out[0] = <uint8_t>rest
    return out + 1


cdef inline uint8_t *_put_big_endian(uint8_t *out, int64_t value, int size) noexcept nogil:
    cdef int index
    for index in range(size):
        out[index] = <uint8_t>((<uint64_t>value >> (8 * (size - 1 - index))) & 0xFF)
    return out + size


cdef inline Py_ssize_t _nullable_bytes(name, data) except -2:
    """The length of `data`; -1 for None."""
    if data is None:
        return -1
    if isinstance(data, bytes):
        return PyBytes_GET_SIZE(data)
    raise TypeError(f"{name} must be bytes or None, not {type(data).__name__}")


cdef inline Py_ssize_t _nullable_size(Py_ssize_t length) noexcept nogil:
    """Size of an encoded nullable field, including its length prefix."""
    return _varint_size(length) + (length if length > 0 else 0)


cdef inline uint8_t *_put_nullable(uint8_t *out, data, Py_ssize_t length) noexcept:
    out = _put_varint(out, length)
    if length > 0:
        memcpy(out, PyBytes_AS_STRING(data), length)
        out += length
    return out


cdef Py_ssize_t _headers_size(tuple headers) except -1:
    """Size of the encoded headers without their count. Checks all types, so that writing cannot fail."""
    cdef Py_ssize_t index, key_bytes, size = 0
    cdef tuple pair
    for index in range(len(headers)):
        header = headers[index]
        if not isinstance(header, tuple) or len(<tuple>header) != 2:
            raise TypeError("a header must be a (str, bytes or None) tuple")
        pair = <tuple>header
        key = pair[0]
        if not isinstance(key, str):
            raise TypeError(f"a header key must be str, not {type(key).__name__}")
        PyUnicode_AsUTF8AndSize(key, &key_bytes)
        size += _nullable_size(key_bytes)
        size += _nullable_size(_nullable_bytes("a header value", pair[1]))
    return size


cdef uint8_t *_put_headers(uint8_t *out, tuple headers) except NULL:
    cdef Py_ssize_t index, key_bytes
    cdef const char *key_data
    cdef tuple pair
    for index in range(len(headers)):
        pair = <tuple>headers[index]
        key_data = PyUnicode_AsUTF8AndSize(pair[0], &key_bytes)
        out = _put_varint(out, key_bytes)
        memcpy(out, key_data, key_bytes)
        out += key_bytes
        value = pair[1]
        out = _put_nullable(out, value, -1 if value is None else PyBytes_GET_SIZE(value))
    return out


@cython.final
cdef class CompiledBatchBuilder:
    """A batch under construction; see codec.BatchBuilder. Space for the header is reserved at its start."""

    cdef uint8_t *_data
    cdef Py_ssize_t _size
    cdef Py_ssize_t _capacity
    cdef Py_ssize_t _max_bytes
    cdef int64_t _base_timestamp
    cdef int64_t _max_timestamp
    cdef bint _has_base_timestamp
    cdef bint _is_built
    cdef object _settings
    cdef readonly int count

    def __cinit__(self, settings):
        self._data = NULL
        self._size = HEADER_BYTES
        self._capacity = 0
        self._settings = settings
        self._max_bytes = settings.max_bytes
        self._has_base_timestamp = settings.delete_horizon_ms is not None
        self._base_timestamp = settings.delete_horizon_ms if self._has_base_timestamp else 0
        self._max_timestamp = -1

    def __dealloc__(self):
        _give_memory(self._data, self._capacity)

    @property
    def size_bytes(self):
        return self._size

    cdef int _reserve(self, Py_ssize_t needed) except -1:
        """Provide a total capacity of `needed` bytes; doubles, so that appending stays linear."""
        cdef Growing growing
        if needed <= self._capacity:
            return 0
        growing.data, growing.capacity = self._data, self._capacity
        _grow(&growing, self._size, needed)
        self._data, self._capacity = growing.data, growing.capacity
        return 0

    def append(self, timestamp_ms, key, value, headers=()):
        # Order: steps that may run Python code come first; then the state is read and changed.
        cdef int overflow = 0
        cdef int64_t timestamp = PyLong_AsLongLongAndOverflow(timestamp_ms, &overflow)
        cdef tuple pairs = <tuple>headers if isinstance(headers, tuple) else tuple(headers)
        cdef Py_ssize_t headers_size = _headers_size(pairs) if len(pairs) else 0
        cdef Py_ssize_t key_bytes, value_bytes, body_bytes, size_bytes
        cdef int64_t delta
        cdef uint8_t *out
        if self._is_built:
            raise ValueError("the batch is already built")
        if overflow or timestamp < -1:
            raise ValueError(f"a timestamp is -1 or at least 0 and fits in 64 bits, not {timestamp_ms}")
        if self._has_base_timestamp:
            if self._base_timestamp < 0 and timestamp > INT64_MAX + self._base_timestamp:
                raise ValueError(f"timestamp {timestamp} is too far from the batch's {self._base_timestamp}")
            delta = timestamp - self._base_timestamp
        else:
            delta = 0
        key_bytes = _nullable_bytes("a key", key)
        value_bytes = _nullable_bytes("a value", value)
        body_bytes = (
            1
            + _varint_size(delta)
            + _varint_size(self.count)
            + _nullable_size(key_bytes)
            + _nullable_size(value_bytes)
            + _varint_size(len(pairs))
            + headers_size
        )
        if body_bytes > INT32_MAX:
            raise ValueError(f"a record of {body_bytes} bytes does not fit in a batch")
        size_bytes = self._size + _varint_size(body_bytes) + body_bytes
        if self.count and size_bytes > self._max_bytes:
            return -1
        if size_bytes > INT32_MAX:
            raise ValueError(f"a record of {body_bytes} bytes does not fit in a batch")
        self._reserve(size_bytes)
        out = _put_varint(self._data + self._size, body_bytes)
        out[0] = 0  # record attributes: the format defines none
        out = _put_varint(out + 1, delta)
        out = _put_varint(out, self.count)
        out = _put_nullable(out, key, key_bytes)
        out = _put_nullable(out, value, value_bytes)
        out = _put_varint(out, len(pairs))
        if headers_size:
            out = _put_headers(out, pairs)
        assert out == self._data + size_bytes, "the size computed is the size written"
        self._size = size_bytes
        if not self._has_base_timestamp:
            self._has_base_timestamp = True
            self._base_timestamp = timestamp
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        self.count += 1
        return self.count - 1

    def stamp(self, producer_id, producer_epoch, base_sequence, is_transactional):
        # Order: steps that may run Python code come first.
        settings = stamped(self._settings, producer_id, producer_epoch, base_sequence, is_transactional)
        if self._is_built:
            raise ValueError("the batch is already built")
        self._settings = settings

    def build(self):
        cdef Py_ssize_t payload_bytes
        cdef const char *payload_data
        cdef uint8_t *out
        cdef bytes batch
        self._check_unfinished()
        # Order: close before the compression, which may release the GIL: the buffer must not move then.
        self._is_built = True
        settings = self._settings
        payload = None
        if settings.compression is _NONE_CODEC:
            payload_bytes = self._size - HEADER_BYTES
            payload_data = <const char *>self._data + HEADER_BYTES
        else:
            records = PyMemoryView_FromMemory(
                <char *>self._data + HEADER_BYTES, self._size - HEADER_BYTES, PyBUF_READ
            )
            payload = compress(settings.compression, records, settings.level)
            payload_bytes = PyBytes_GET_SIZE(payload)
            payload_data = PyBytes_AS_STRING(payload)
        batch = PyBytes_FromStringAndSize(NULL, HEADER_BYTES + payload_bytes)
        out = <uint8_t *>PyBytes_AS_STRING(batch)
        memcpy(out + HEADER_BYTES, payload_data, payload_bytes)
        self._put_batch_header(out, payload_bytes)
        crc = crc32c(memoryview(batch)[COVERED_AT:])
        _put_big_endian(out + CRC_AT, <int64_t>crc, 4)
        return batch

    def finish(self):
        cdef Growing growing
        cdef _Block block
        cdef Py_ssize_t size = self._size
        self._check_unfinished()
        if self._settings.compression is not _NONE_CODEC:
            return self.build()
        # Order: close before the checksum, which may release the GIL.
        self._is_built = True
        growing.data, growing.capacity = self._data, self._capacity
        block = _handed_out(&growing, size)
        self._data, self._capacity = NULL, 0
        self._put_batch_header(block._data, size - HEADER_BYTES)
        # 0: the GIL is kept, for at most a tenth of a millisecond. Acquiring it again takes milliseconds while
        # other threads are busy.
        crc = crc32c(memoryview(block)[COVERED_AT:], 0, 0)
        _put_big_endian(block._data + CRC_AT, <int64_t>crc, 4)
        return memoryview(block)

    cdef int _check_unfinished(self) except -1:
        if not self.count:
            raise ValueError("a batch needs at least one record")
        if self._data == NULL:
            raise ValueError("the batch is already finished")
        return 0

    cdef int _put_batch_header(self, uint8_t *out, Py_ssize_t payload_bytes) except -1:
        """All 61 bytes but the CRC; the layout is in header.py."""
        settings = self._settings
        out = _put_big_endian(out, 0, 8)
        out = _put_big_endian(out, HEADER_BYTES - LENGTH_END + payload_bytes, 4)
        out = _put_big_endian(out, -1, 4)
        out = _put_big_endian(out, 2, 1)
        out = _put_big_endian(out, 0, 4)
        out = _put_big_endian(out, settings.attributes, 2)
        out = _put_big_endian(out, self.count - 1, 4)
        out = _put_big_endian(out, self._base_timestamp, 8)
        out = _put_big_endian(out, self._max_timestamp, 8)
        out = _put_big_endian(out, settings.producer_id, 8)
        out = _put_big_endian(out, settings.producer_epoch, 2)
        out = _put_big_endian(out, settings.base_sequence, 4)
        _put_big_endian(out, self.count, 4)
        return 0

    def append_columns(self, columns, timestamp_ms, rows, start, end, stop_bytes):
        return _append_columns(self, columns, timestamp_ms, rows, start, end, stop_bytes)

    def append_values(self, timestamp_ms, values, start, stop_bytes):
        return _append_values(self, timestamp_ms, values, start, stop_bytes)
