"""Part of _batch.pyx: gathering the records of many batches by column.

The walk runs without the GIL and never allocates: it stops before a record that does not fit, memory is
allocated under the GIL, and the walk continues at that record. Rows are added only after the walk of the whole
batch.
"""


cdef enum:
    NO_ROOM = 100  # not a Fault: the walk stopped before a record that needs more memory


# A binary column under construction.
cdef struct Binary:
    bint is_wanted
    Growing offsets  # int32, count + 1 of them
    Growing data
    Growing validity  # a new byte has all bits set
    Py_ssize_t count
    Py_ssize_t size  # bytes of data in use
    Py_ssize_t room  # usable bytes of data; Invariant: size <= room <= data.capacity; the caller raises it
    Py_ssize_t null_count


# The state of the walk. Invariant: the arrays of rows have capacity for count + max_rows.
cdef struct Gathering:
    Binary keys
    Binary values
    bint has_headers
    Growing header_offsets
    Binary header_keys
    Binary header_values
    Py_ssize_t pair_room
    Growing offsets
    Growing timestamps
    Py_ssize_t count  # rows of earlier batches
    # Of the current batch:
    Py_ssize_t taken
    Py_ssize_t max_rows
    int64_t from_offset
    bint is_stopped
    int64_t left_out_offset
    const uint8_t *payload
    Py_ssize_t size
    Py_ssize_t at  # position of the next record
    int32_t index
    int32_t last_delta
    # Of the record that did not fit:
    Py_ssize_t key_bytes
    Py_ssize_t value_bytes
    Py_ssize_t pair_count
    Py_ssize_t pair_key_bytes
    Py_ssize_t pair_value_bytes


cdef inline void _put_value(Binary *column, const uint8_t *data, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t index = column.count
    if not index & 7:
        column.validity.data[index >> 3] = 0xFF
    if length > 0:
        memcpy(column.data.data + column.size, data, length)
        column.size += length
    elif length < 0:
        column.validity.data[index >> 3] &= ~(<uint8_t>1 << (index & 7))
        column.null_count += 1
    column.count = index + 1
    (<int32_t *>column.offsets.data)[index + 1] = <int32_t>column.size


cdef int _measure_headers(Gathering *g, Cursor *cursor, int32_t count) noexcept nogil:
    """Skip the headers of a record, check them, and count the bytes that they need."""
    cdef Py_ssize_t start = 0, length = 0
    cdef int32_t index
    cdef int fault
    g.pair_count, g.pair_key_bytes, g.pair_value_bytes = count, 0, 0
    for index in range(count):
        fault = _skip_nullable(cursor, &start, &length)
        if fault:
            return fault
        if length < 0 or not _is_utf8(cursor.data + start, cursor.data + start + length):
            return BAD_HEADERS
        g.pair_key_bytes += length
        fault = _skip_nullable(cursor, &start, &length)
        if fault:
            return fault
        if length > 0:
            g.pair_value_bytes += length
    return FINE


cdef int _gather_headers(Gathering *g, Cursor cursor, int32_t count) noexcept nogil:
    """Copy headers that were measured; `cursor` is at the first one."""
    cdef Py_ssize_t start = 0, length = 0
    cdef int32_t index
    if (
        g.header_keys.count + g.pair_count > g.pair_room
        or g.pair_key_bytes > g.header_keys.room - g.header_keys.size
        or g.pair_value_bytes > g.header_values.room - g.header_values.size
    ):
        return NO_ROOM
    for index in range(count):
        # Another thread may have written to the batch since the headers were measured.
        if _skip_nullable(&cursor, &start, &length) or length > g.header_keys.room - g.header_keys.size:
            return BAD_HEADERS
        _put_value(&g.header_keys, cursor.data + start, length)
        if _skip_nullable(&cursor, &start, &length) or length > g.header_values.room - g.header_values.size:
            return BAD_HEADERS
        _put_value(&g.header_values, cursor.data + start, length)
    return FINE


cdef int _gather(Gathering *state, const BatchFields *batch) noexcept nogil:
    """Continue the walk to the end of the batch; returns FINE, a fault, or NO_ROOM before a record without room."""
    # Locals, because the compiler must assume that copied bytes overwrite what a pointer refers to.
    cdef Gathering g = state[0]
    cdef Cursor cursor = Cursor(g.payload, g.at, g.size)
    cdef Cursor at_headers
    cdef Fields fields
    cdef bint is_taken
    cdef int fault = FINE
    fields.delta = g.last_delta
    while g.index < batch.record_count:
        fault = _read_record(&cursor, batch, g.index, &fields)
        if fault:
            break
        is_taken = not g.is_stopped and fields.offset >= g.from_offset
        if is_taken and g.taken == g.max_rows:
            g.is_stopped, g.left_out_offset, is_taken = True, fields.offset, False
        g.pair_count = g.pair_key_bytes = g.pair_value_bytes = 0
        if is_taken and (
            (g.keys.is_wanted and fields.key_bytes > g.keys.room - g.keys.size)
            or (g.values.is_wanted and fields.value_bytes > g.values.room - g.values.size)
        ):
            fault = NO_ROOM
            break
        if fields.header_count:
            at_headers = cursor
            fault = _measure_headers(&g, &at_headers, fields.header_count)
            if fault:
                break
            if at_headers.at != cursor.end:
                fault = TRAILING_BYTES
                break
            if is_taken and g.has_headers:
                fault = _gather_headers(&g, cursor, fields.header_count)
                if fault:
                    break
            cursor.at = at_headers.at
        elif cursor.at != cursor.end:
            fault = TRAILING_BYTES
            break
        if is_taken:
            if g.keys.is_wanted:
                _put_value(&g.keys, g.payload + fields.key_at, fields.key_bytes)
            if g.values.is_wanted:
                _put_value(&g.values, g.payload + fields.value_at, fields.value_bytes)
            if g.has_headers:
                (<int32_t *>g.header_offsets.data)[g.count + g.taken + 1] = <int32_t>g.header_keys.count
            (<int64_t *>g.offsets.data)[g.count + g.taken] = fields.offset
            (<int64_t *>g.timestamps.data)[g.count + g.taken] = fields.timestamp
            g.taken += 1
        cursor.end = g.size
        g.at, g.last_delta = cursor.at, fields.delta
        g.index += 1
    else:
        if cursor.at != g.size:
            fault = TRAILING_BYTES
    if fault == NO_ROOM:
        g.left_out_offset = fields.offset
        g.key_bytes, g.value_bytes = fields.key_bytes, fields.value_bytes
    state[0] = g
    return fault


cdef int _reserve_rows(Binary *column, Py_ssize_t rows) except -1:
    cdef bint is_new = column.offsets.data == NULL
    _grow(&column.offsets, 4 * (column.count + 1), 4 * (rows + 1))
    _grow(&column.validity, (column.count + 7) // 8, (rows + 7) // 8)
    if is_new:
        (<int32_t *>column.offsets.data)[0] = 0
    return 0


cdef int _reserve_data(Binary *column, Py_ssize_t needed, Py_ssize_t limit) except -1:
    """Provide capacity for `needed` more bytes; beyond the limit only if allowed."""
    _grow(&column.data, column.size, max(column.size + needed, 1))
    column.room = max(column.size + needed, min(column.data.capacity, limit))
    return 0


cdef inline bint _passes(const Binary *column, Py_ssize_t needed, Py_ssize_t limit) noexcept:
    return column.is_wanted and needed > 0 and column.size + needed > limit


cdef void _rewind(Binary *column, const Binary *mark) noexcept:
    """Remove the rows added since the mark; grown memory is kept."""
    column.count, column.size, column.null_count = mark.count, mark.size, mark.null_count
    if column.count & 7:
        column.validity.data[column.count >> 3] |= <uint8_t>(0xFF << (column.count & 7))


cdef void _drop(Binary *column) noexcept:
    _give_memory(column.offsets.data, column.offsets.capacity)
    _give_memory(column.data.data, column.data.capacity)
    _give_memory(column.validity.data, column.validity.capacity)


cdef object _finished(Binary *column):
    if not column.is_wanted:
        return None
    _reserve_rows(column, column.count)
    _reserve_data(column, 0, INT32_MAX)
    offsets = _handed_out(&column.offsets, 4 * (column.count + 1))
    data = _handed_out(&column.data, column.size)
    validity = _handed_out(&column.validity, (column.count + 7) // 8)
    return BinaryColumn(offsets, data, validity if column.null_count else None)


@cython.final
cdef class CompiledColumnSink:
    """Records of many batches by column; see codec.ColumnSink."""

    cdef Gathering _g
    cdef Growing _partitions
    cdef Growing _timestamp_types
    cdef Growing _leader_epochs
    cdef Py_ssize_t _limit
    cdef bint _is_finished
    cdef bint _is_busy

    def __cinit__(self, bint keys, bint values, bint headers, max_column_bytes):
        if not 1 <= max_column_bytes <= INT32_MAX:
            raise ValueError(f"max_column_bytes must be between 1 and {INT32_MAX}, not {max_column_bytes}")
        memset(&self._g, 0, sizeof(Gathering))
        self._limit = max_column_bytes
        self._g.keys.is_wanted = keys
        self._g.values.is_wanted = values
        self._g.has_headers = self._g.header_keys.is_wanted = self._g.header_values.is_wanted = headers

    def __dealloc__(self):
        _drop(&self._g.keys)
        _drop(&self._g.values)
        _drop(&self._g.header_keys)
        _drop(&self._g.header_values)
        _give_memory(self._g.header_offsets.data, self._g.header_offsets.capacity)
        _give_memory(self._g.offsets.data, self._g.offsets.capacity)
        _give_memory(self._g.timestamps.data, self._g.timestamps.capacity)
        _give_memory(self._partitions.data, self._partitions.capacity)
        _give_memory(self._timestamp_types.data, self._timestamp_types.capacity)
        _give_memory(self._leader_epochs.data, self._leader_epochs.capacity)

    @property
    def count(self):
        return self._g.count

    cdef int _check_usable(self) except -1:
        if self._is_finished:
            raise ValueError("the columns are already finished")
        if self._is_busy:
            raise ValueError("the columns are in use by another thread")
        return 0

    def append(
        self,
        batch,
        *,
        partition,
        from_offset=0,
        max_rows,
        bint check_crc=True,
        max_decompressed_bytes=MAX_DECOMPRESSED_BYTES,
    ):
        cdef int64_t rows = _clamped(max_rows), number = _clamped(partition), first = _clamped(from_offset)
        cdef BatchFields fields
        cdef Py_buffer view
        if rows < 0 or not -INT32_MAX <= number <= INT32_MAX:
            raise ValueError(f"max_rows {max_rows}, partition {partition}")
        self._check_usable()
        header, payload = open_batch(
            batch, check_crc=check_crc, is_dense=False, max_decompressed_bytes=max_decompressed_bytes
        )
        fields = _batch_fields(header, False)
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            self._check_usable()  # again: the GIL may have been released while the batch was opened
            self._is_busy = True
            try:
                self._take(&fields, <const uint8_t *>view.buf, view.len, first, rows)
            finally:
                self._is_busy = False
        finally:
            PyBuffer_Release(&view)
        taken = self._g.taken
        self._fill(number, fields.has_append_time, header.leader_epoch)
        return taken, self._g.left_out_offset if self._g.is_stopped else header.next_offset

    cdef int _take(
        self, const BatchFields *batch, const uint8_t *data, Py_ssize_t size, int64_t from_offset, int64_t rows
    ) except -1:
        """Walk one batch. After an error the sink is unchanged."""
        cdef Gathering *g = &self._g
        cdef Gathering mark = g[0]
        cdef int fault = NO_ROOM
        g.payload, g.size, g.at, g.index, g.last_delta = data, size, 0, 0, -1
        g.taken, g.is_stopped, g.from_offset = 0, False, from_offset
        # Bound: open_batch has checked that record_count is at most size // 7; rows are counted in 32 bits.
        g.max_rows = min(rows, INT32_MAX - 1 - g.count)
        self._reserve_row_arrays(g.count + min(g.max_rows, <int64_t>batch.record_count))
        g.keys.room = self._room(&g.keys)
        g.values.room = self._room(&g.values)
        g.header_keys.room = self._room(&g.header_keys)
        g.header_values.room = self._room(&g.header_values)
        try:
            if g.values.is_wanted and g.max_rows >= batch.record_count:
                self._reserve_payload(size)
            while fault == NO_ROOM:
                with nogil:
                    fault = _gather(g, batch)
                if fault == NO_ROOM:
                    self._make_room()
            if fault:
                raise _fault(fault, g.index)
        except BaseException:
            g.taken = 0
            _rewind(&g.keys, &mark.keys)
            _rewind(&g.values, &mark.values)
            _rewind(&g.header_keys, &mark.header_keys)
            _rewind(&g.header_values, &mark.header_values)
            raise
        return 0

    cdef Py_ssize_t _room(self, const Binary *column) noexcept:
        """Bytes that the column may use. The first row may exceed the limit; after it only empty values are added."""
        return max(column.size, min(column.data.capacity, self._limit))

    cdef int _reserve_payload(self, Py_ssize_t size) except -1:
        """Reserve the size of a whole batch for its values, which are most of its bytes."""
        cdef Gathering *g = &self._g
        if g.values.size + size <= self._limit:
            _reserve_data(&g.values, size, self._limit)
        return 0

    cdef int _reserve_row_arrays(self, Py_ssize_t rows) except -1:
        cdef Gathering *g = &self._g
        cdef bint is_new = g.header_offsets.data == NULL
        if g.keys.is_wanted:
            _reserve_rows(&g.keys, rows)
        if g.values.is_wanted:
            _reserve_rows(&g.values, rows)
        if g.has_headers:
            _grow(&g.header_offsets, 4 * (g.count + 1), 4 * (rows + 1))
            if is_new:
                (<int32_t *>g.header_offsets.data)[0] = 0
        _grow(&g.offsets, 8 * g.count, 8 * rows)
        _grow(&g.timestamps, 8 * g.count, 8 * rows)
        _grow(&self._partitions, 4 * g.count, 4 * rows)
        _grow(&self._timestamp_types, 4 * g.count, 4 * rows)
        _grow(&self._leader_epochs, 4 * g.count, 4 * rows)
        return 0

    cdef int _make_room(self) except -1:
        """Grow the memory for the record at which the walk stopped, or end the walk."""
        cdef Gathering *g = &self._g
        cdef Py_ssize_t pairs = g.header_keys.count + g.pair_count
        if g.count + g.taken and (
            _passes(&g.keys, g.key_bytes, self._limit)
            or _passes(&g.values, g.value_bytes, self._limit)
            or _passes(&g.header_keys, g.pair_key_bytes, self._limit)
            or _passes(&g.header_values, g.pair_value_bytes, self._limit)
            or pairs > INT32_MAX - 1
        ):
            g.is_stopped = True
            return 0
        if g.keys.is_wanted:
            _reserve_data(&g.keys, max(0, g.key_bytes), self._limit)
        if g.values.is_wanted:
            _reserve_data(&g.values, max(0, g.value_bytes), self._limit)
        if g.has_headers and g.pair_count:
            _reserve_data(&g.header_keys, g.pair_key_bytes, self._limit)
            _reserve_data(&g.header_values, g.pair_value_bytes, self._limit)
            if pairs > g.pair_room:
                g.pair_room = min(max(pairs, 2 * g.pair_room), INT32_MAX - 1)
                _reserve_rows(&g.header_keys, g.pair_room)
                _reserve_rows(&g.header_values, g.pair_room)
        return 0

    cdef void _fill(self, int32_t partition, int32_t timestamp_type, int32_t leader_epoch) noexcept:
        """Fill the fields that are the same for all rows of a batch, and count its rows."""
        cdef Py_ssize_t row
        for row in range(self._g.count, self._g.count + self._g.taken):
            (<int32_t *>self._partitions.data)[row] = partition
            (<int32_t *>self._timestamp_types.data)[row] = timestamp_type
            (<int32_t *>self._leader_epochs.data)[row] = leader_epoch
        self._g.count += self._g.taken
        self._g.taken = 0

    def finish(self):
        cdef Gathering *g = &self._g
        cdef Py_ssize_t count = g.count
        self._check_usable()
        self._is_finished = True
        self._reserve_row_arrays(count)
        g.count = 0
        headers = None
        if g.has_headers:
            offsets = _handed_out(&g.header_offsets, 4 * (count + 1))
            headers = HeaderColumn(offsets, _finished(&g.header_keys), _finished(&g.header_values))
        return DecodedColumns(
            count,
            _finished(&g.keys),
            _finished(&g.values),
            _handed_out(&self._partitions, 4 * count),
            _handed_out(&g.offsets, 8 * count),
            _handed_out(&g.timestamps, 8 * count),
            _handed_out(&self._timestamp_types, 4 * count),
            _handed_out(&self._leader_epochs, 4 * count),
            headers,
        )
