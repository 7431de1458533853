"""Part of _batch.pyx: reading columns from buffers of other libraries. In Python: columns.Spans.

Every read is checked explicitly: rows against the counts computed when the column is opened, offsets against the
length of the data at each use. Items may be unaligned, so they are copied.
"""

cdef inline int64_t _clamped(number) except? -1:
    """A Python integer clamped to 64 bits, for values that are only compared with a count."""
    cdef int overflow = 0
    cdef int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow)
    if overflow:
        return INT64_MAX if overflow > 0 else -INT64_MAX - 1
    return value


cdef inline int32_t _int32_at(const uint8_t *data, int64_t index) noexcept nogil:
    cdef int32_t value
    memcpy(&value, data + 4 * index, 4)
    return value


cdef inline int64_t _int64_at(const uint8_t *data, int64_t index) noexcept nogil:
    cdef int64_t value
    memcpy(&value, data + 8 * index, 8)
    return value


@cython.final
cdef class _Held:
    """Buffers that stay locked until this object is freed."""

    cdef Py_buffer _views[16]  # Bound: rows, timestamps, four binary columns of three, header spans of two
    cdef int _used

    def __cinit__(self):
        self._used = 0

    def __dealloc__(self):
        cdef int index
        for index in range(self._used):
            PyBuffer_Release(&self._views[index])

    cdef const uint8_t *take(self, buffer, int64_t *size) except? NULL:
        assert self._used < 16
        try:
            PyObject_GetBuffer(buffer, &self._views[self._used], PyBUF_SIMPLE)
        except BufferError as error:
            raise ValueError("a column's buffer must be contiguous") from error
        self._used += 1
        size[0] = self._views[self._used - 1].len
        return <const uint8_t *>self._views[self._used - 1].buf


cdef struct Spans:
    const uint8_t *offsets
    const uint8_t *validity  # NULL: no value is null
    const uint8_t *data  # NULL for headers
    int64_t end  # upper bound of the offsets: bytes of data, or header pairs
    int64_t first
    int64_t available  # Invariant: rows 0 .. available-1 are inside offsets and validity


cdef int _open_spans(_Held held, column, int64_t count, Spans *out) except -1:
    cdef int64_t size = 0
    out.first = _clamped(column.first)
    if out.first < 0:
        raise ValueError(f"a column starts at row {column.first}")
    out.offsets = held.take(column.offsets, &size)
    out.available = max(0, size // 4 - 1 - out.first)
    out.validity = NULL
    validity = column.validity
    if validity is not None:
        out.validity = held.take(validity, &size)
        out.available = min(out.available, max(0, size * 8 - out.first))
    if out.available < count:
        raise ValueError(f"a column of {count} rows has buffers for {out.available}")
    out.data, out.end = NULL, 0
    return 0


cdef int _open_values(_Held held, column, int64_t count, Spans *out) except -1:
    _open_spans(held, column, count, out)
    out.data = held.take(column.data, &out.end)
    return 0


cdef inline int _span(const Spans *spans, int64_t row, int64_t *low, int64_t *high) noexcept nogil:
    """Find the range of a row below `available`: returns 1, 0 for null, -1 for invalid offsets."""
    cdef int64_t at = spans.first + row
    if spans.validity != NULL and not spans.validity[at >> 3] >> (at & 7) & 1:
        return 0
    low[0] = _int32_at(spans.offsets, at)
    high[0] = _int32_at(spans.offsets, at + 1)
    return 1 if 0 <= low[0] <= high[0] <= spans.end else -1


cdef inline int _value_at(
    const Spans *spans, int64_t row, const uint8_t **data, Py_ssize_t *length
) except -1:
    """Find the position and length of a row's value; length -1 for null. ValueError for invalid offsets."""
    cdef int64_t low = 0, high = 0
    cdef int found = _span(spans, row, &low, &high)
    if found < 0:
        raise ValueError(f"offsets {low} and {high} of row {row}, with {spans.end} behind them")
    data[0] = spans.data + low
    length[0] = high - low if found else -1
    return 0


cdef bint _is_utf8(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Whether the bytes are valid UTF-8 for Python: shortest forms only, no surrogates."""
    cdef uint8_t lead, low, high
    cdef int size, index
    while at < end:
        lead = at[0]
        if lead < 0x80:
            at += 1
            continue
        size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        if lead < 0xC2 or lead > 0xF4 or end - at < size:
            return False
        low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        if at[1] < low or at[1] > high:
            return False
        for index in range(2, size):
            if at[index] & 0xC0 != 0x80:
                return False
        at += size
    return True
