"""Part of _batch.pyx: large memory blocks for growing columns, which are exported as buffers and reused.

The first write to new memory costs ten times a later one, because the kernel must find and clear each page.
So a few freed blocks are kept, by power of two. All functions here run under the GIL.
"""


cdef enum:
    FIRST_POWER = 12
    POWERS = 40
    SPARE_POWERS = 5
    MAX_KEPT_BYTES = 67108864  # Bound: all unused blocks of the process together


cdef struct Kept:
    Kept *next


cdef Kept *_kept[POWERS]
cdef Py_ssize_t _kept_bytes = 0


cdef int _power_of(Py_ssize_t needed) except -1:
    """The smallest power of two, as exponent, of a block for so many bytes."""
    cdef int power = FIRST_POWER
    while power < POWERS and <Py_ssize_t>1 << power < needed:
        power += 1
    if power >= POWERS:
        raise MemoryError()
    return power


cdef uint8_t *_take_kept(int power, int spare_powers, Py_ssize_t *capacity) noexcept:
    """Take a kept block, at most this many powers of two larger; NULL if there is none."""
    global _kept_bytes
    cdef int larger
    cdef Kept *found
    for larger in range(power, min(power + spare_powers + 1, POWERS)):
        found = _kept[larger]
        if found != NULL:
            _kept[larger] = found.next
            capacity[0] = <Py_ssize_t>1 << larger
            _kept_bytes -= capacity[0]
            return <uint8_t *>found
    return NULL


cdef uint8_t *_take_memory(Py_ssize_t needed, Py_ssize_t *capacity) except NULL:
    """Allocate at least `needed` bytes, uninitialised."""
    cdef int power = _power_of(needed)
    cdef uint8_t *data = _take_kept(power, 0, capacity)
    if data == NULL:
        data = <uint8_t *>PyMem_RawMalloc(<Py_ssize_t>1 << power)
        if data == NULL:
            raise MemoryError()
        capacity[0] = <Py_ssize_t>1 << power
    return data


cdef void _give_memory(uint8_t *data, Py_ssize_t capacity) noexcept:
    global _kept_bytes
    cdef Kept *block = <Kept *>data
    cdef int power = FIRST_POWER
    if data == NULL:
        return
    if _kept_bytes + capacity > MAX_KEPT_BYTES:
        PyMem_RawFree(data)
        return
    while <Py_ssize_t>1 << power < capacity:
        power += 1
    block.next = _kept[power]
    _kept[power] = block
    _kept_bytes += capacity


@cython.final
cdef class _Block:
    """Read-only bytes; the memory is freed with the last buffer that refers to it."""

    cdef uint8_t *_data
    cdef Py_ssize_t _size
    cdef Py_ssize_t _capacity

    def __dealloc__(self):
        _give_memory(self._data, self._capacity)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self._data, self._size, 1, flags)

    def __len__(self):
        return self._size


cdef _Block _new_block(Py_ssize_t size):
    cdef _Block block = _Block.__new__(_Block)
    block._data = _take_memory(size, &block._capacity)
    block._size = size
    return block


# A growing buffer. It owns its memory until the memory is exported.
cdef struct Growing:
    uint8_t *data
    Py_ssize_t capacity


cdef int _grow(Growing *growing, Py_ssize_t used, Py_ssize_t needed) except -1:
    """Provide capacity for `needed` bytes, keeping the first `used`. At least doubles: growing stays linear."""
    cdef Py_ssize_t capacity = 0
    cdef uint8_t *data
    cdef int power
    if needed <= growing.capacity:
        return 0
    if growing.data == NULL:
        growing.data = _take_memory(needed, &growing.capacity)
        return 0
    power = _power_of(needed)
    # A buffer that grew will probably grow again: a larger kept block saves copies. Bound: the kept blocks.
    data = _take_kept(power, SPARE_POWERS, &capacity)
    if data != NULL:
        memcpy(data, growing.data, used)
        _give_memory(growing.data, growing.capacity)
    else:
        # In place if possible. The smaller block is freed, because otherwise one of each size would be kept.
        capacity = <Py_ssize_t>1 << power
        data = <uint8_t *>PyMem_RawRealloc(growing.data, capacity)
        if data == NULL:
            raise MemoryError()
    growing.data, growing.capacity = data, capacity
    return 0


cdef _Block _handed_out(Growing *growing, Py_ssize_t size):
    cdef _Block block = _Block.__new__(_Block)
    assert size <= growing.capacity
    block._data, block._size, block._capacity = growing.data, size, growing.capacity
    growing.data, growing.capacity = NULL, 0
    return block
