"""Part of _batch.pyx: big blocks of memory that columns grow in, handed out as buffers and used again.

Touching fresh memory costs ten times writing to it, for the kernel must find and clear each page. So a few
blocks that were given back are kept, by power of two. All of this runs under the GIL.
"""


cdef enum:
    FIRST_POWER = 12
    POWERS = 40
    SPARE_POWERS = 5
    MAX_KEPT_BYTES = 67108864  # Bound: what the process keeps beyond its use, in all


cdef struct Kept:
    Kept *next


cdef Kept *_kept[POWERS]
cdef Py_ssize_t _kept_bytes = 0


cdef uint8_t *_take_memory(Py_ssize_t needed, Py_ssize_t *capacity, int spare_powers) except NULL:
    """At least `needed` bytes, uninitialised; a kept block may be larger by that many powers of two."""
    global _kept_bytes
    cdef int power = FIRST_POWER, larger
    cdef Kept *found
    while <Py_ssize_t>1 << power < needed:
        power += 1
    if power >= POWERS:
        raise MemoryError()
    for larger in range(power, min(power + spare_powers + 1, POWERS)):
        found = _kept[larger]
        if found != NULL:
            _kept[larger] = found.next
            capacity[0] = <Py_ssize_t>1 << larger
            _kept_bytes -= capacity[0]
            return <uint8_t *>found
    capacity[0] = <Py_ssize_t>1 << power
    found = <Kept *>PyMem_RawMalloc(capacity[0])
    if found == NULL:
        raise MemoryError()
    return <uint8_t *>found


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
    """Read-only bytes for whoever holds a buffer of it; the memory is given back when the last one goes."""

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
    block._data = _take_memory(size, &block._capacity, 0)
    block._size = size
    return block


# A buffer that grows. It owns its memory until it is handed out.
cdef struct Growing:
    uint8_t *data
    Py_ssize_t capacity


cdef int _grow(Growing *growing, Py_ssize_t used, Py_ssize_t needed) except -1:
    """Room for `needed` bytes, of which `used` are kept; at least doubles, so that growing stays linear."""
    cdef Py_ssize_t capacity = 0
    cdef uint8_t *data
    if needed <= growing.capacity:
        return 0
    # What grew once will grow again: a larger kept block saves copying. Bound: what is kept at all.
    data = _take_memory(needed, &capacity, SPARE_POWERS if growing.data != NULL else 0)
    if growing.data != NULL:
        memcpy(data, growing.data, used)
    _give_memory(growing.data, growing.capacity)
    growing.data, growing.capacity = data, capacity
    return 0


cdef _Block _handed_out(Growing *growing, Py_ssize_t size):
    cdef _Block block = _Block.__new__(_Block)
    assert size <= growing.capacity
    block._data, block._size, block._capacity = growing.data, size, growing.capacity
    growing.data, growing.capacity = NULL, 0
    return block
